"""Checks that a view's topics exist and are still those that its checkpoint belongs to.

Spark checks little of this. It continues with a recreated raw topic as soon as that has as many
records as the old one, and writes only new results to a recreated view topic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark.checkpoints.files import CheckpointFiles
from spark.errors import JVM_ENDED, JobError, recreated, repartitioned
from spark.kafka_admin import KafkaAdmin, Topic
from spark.settings import Settings
from spark.sinks import DEAD_LETTER_SUFFIX
from spark.view import View


def prepare_topics(
    session: SparkSession, admin: KafkaAdmin, settings: Settings, log: Callable[[str], None]
) -> dict[str, Topic]:
    """Waits for all topics, creates the dead-letter topics and checks the topics' ids; ``JobError``
    if a topic is missing or recreated."""
    found = admin.wait_for(topics_of(settings.views), settings.topics_deadline, on_wait=log)
    for source in {view.source for view in settings.views}:
        admin.create_dead_letter_topic(source + DEAD_LETTER_SUFFIX)
    for view in settings.views:
        ids = {topic: found[topic].id for topic in (view.source, view.topic)}
        check_identity(session, settings.checkpoint(view), ids)
    return found


def check_unchanged(admin: KafkaAdmin, settings: Settings, topics: dict[str, Topic]) -> None:
    """``JobError`` if a topic was deleted, recreated or given more partitions since the start."""
    try:
        now = admin.topics(topics)
    except JobError:
        return  # the brokers are unreachable, maybe for a moment; queries have their own time-outs
    except Py4JError as error:
        raise JobError(JVM_ENDED) from error
    for view in settings.views:
        for topic in (view.source, view.topic):
            if topic not in now or now[topic].id != topics[topic].id:
                raise recreated(topic, settings.checkpoint(view))
        before, after = topics[view.topic].partitions, now[view.topic].partitions
        if after != before:
            raise repartitioned(view.topic, before, after)


def topics_of(views: Iterable[View]) -> set[str]:
    """The raw topics and view topics."""
    return {topic for view in views for topic in (view.source, view.topic)}


def check_identity(session: SparkSession, checkpoint: str, ids: dict[str, str]) -> None:
    """Stores the topics' ids in the checkpoint; ``JobError`` if one differs from the stored one.

    ``checkpoint`` is a path of any file system that Hadoop supports.
    """
    files = CheckpointFiles(session)
    path = f"{checkpoint}/topics.json"
    before = json.loads(files.read(path) or "{}")
    for topic, topic_id in ids.items():
        if before.get(topic, topic_id) != topic_id:
            raise recreated(topic, checkpoint)
    if before != ids:
        files.replace(path, json.dumps(ids))
