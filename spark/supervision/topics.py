"""Creates the topics that the job writes, and checks that no topic of a view was recreated since
its checkpoint was made.

Spark does not notice most of these cases. It continues with a recreated raw topic when that has as
many records as the old one, and writes only new results to a recreated view topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from model.dead_letters import MAX_MESSAGE_BYTES, SUFFIX
from spark.checkpoints.files import CheckpointFiles
from spark.errors import (
    JVM_ENDED,
    JobError,
    Unavailable,
    needs_slots,
    recreated,
    repartitioned,
    unobserved,
)
from spark.kafka_admin import KafkaAdmin, Topic
from spark.settings import Settings
from spark.supervision.moved_keys import MovedKeys
from spark.supervision.status import ViewStatus
from spark.view import View

COMPACT = {"cleanup.policy": "compact"}


def prepare_topics(
    session: SparkSession, admin: KafkaAdmin, settings: Settings, log: Callable[[str], None]
) -> dict[str, Topic]:
    """Waits for the sources, creates missing view topics and the dead-letter topics of streams, and
    checks the topics' ids. Raises ``JobError`` if a topic is missing or recreated."""
    views = settings.views
    targets = {view.topic: view for view in views}
    letters = {source.topic + SUFFIX for view in views for source in view.streams}
    required = topics_of(views)
    seconds = settings.topics_deadline
    if not settings.create_topics:
        topics = admin.wait_for(required | letters, seconds, on_wait=log)
    else:
        # A source may be the topic of another view of this job.
        existing = admin.wait_for(required - targets.keys(), seconds, on_wait=log)
        existing |= admin.topics(targets)
        for topic, view in targets.items():
            if topic not in existing:
                _create_view_topic(session, admin, settings, view, log)
        for topic in sorted(letters):
            admin.create_dead_letter_topic(topic)
        topics = admin.wait_for(required, seconds, on_wait=log)
    for topic, view in targets.items():
        _check_cleanup_policy(admin, topic, view, log)
    for topic in sorted(letters):
        _check_message_bytes(admin, topic, log)
    for view in views:
        ids = {topic: topics[topic].id for topic in (*view.source_topics, view.topic)}
        check_identity(session, settings.checkpoint(view), ids)
    return topics


def view_topic_config(view: View) -> dict[str, str]:
    """The settings of a new view topic."""
    return {**COMPACT, **view.topic_config}


def _create_view_topic(
    session: SparkSession,
    admin: KafkaAdmin,
    settings: Settings,
    view: View,
    log: Callable[[str], None],
) -> None:
    checkpoint = settings.checkpoint(view)
    if view.topic in _stored_ids(session, checkpoint):
        raise recreated(view.topic, checkpoint)  # a new topic would lack what was written before
    config = view_topic_config(view)
    why = admin.create_topic(view.topic, view.partitions, config)
    if why.startswith("TopicExists"):
        return
    text = ", ".join(f"{name}={value}" for name, value in config.items())
    if why:
        raise JobError(
            f"cannot create topic {view.topic}: {why}. Create it with {view.partitions} partitions "
            f"and {text}, or let the job create it (permission CREATE)."
        )
    log(f"created topic {view.topic}: {view.partitions} partitions, {text}")


def _check_cleanup_policy(
    admin: KafkaAdmin, topic: str, view: View, log: Callable[[str], None]
) -> None:
    """Warns if Kafka would delete entries of the view, or keep all records."""
    policy = None
    with suppress(Unavailable):  # only a warning depends on it
        policy = admin.config(topic, "cleanup.policy")
    if policy is None:
        return
    expected = view_topic_config(view)["cleanup.policy"]
    actual = set(policy.split(","))
    if "compact" not in actual or not actual <= set(expected.split(",")):
        log(
            f"warning: topic {topic} has cleanup.policy={policy}, which deletes entries of the "
            f"view {view.name} when they are old. Set cleanup.policy={expected}."
        )


def _check_message_bytes(admin: KafkaAdmin, topic: str, log: Callable[[str], None]) -> None:
    """Warns if Kafka would reject large dead letters."""
    limit = None
    with suppress(Unavailable):
        limit = admin.config(topic, "max.message.bytes")
    if limit is not None and int(limit) < MAX_MESSAGE_BYTES:
        log(
            f"warning: topic {topic} has max.message.bytes={limit}, so a large dead letter makes "
            f"its query fail at each restart. Set max.message.bytes={MAX_MESSAGE_BYTES}."
        )


def check_unchanged(
    admin: KafkaAdmin,
    settings: Settings,
    topics: Mapping[str, Topic],
    moved_keys: MovedKeys,
    statuses: Mapping[str, ViewStatus],
) -> None:
    """Raises ``JobError`` if a topic was deleted or recreated since the start, or has more
    partitions and only the next start takes them into account. With ``once``, new partitions of
    sources do not matter. ``statuses``: the current statuses of the views."""
    try:
        now = admin.topics(topics)
    except JobError:
        return  # the brokers are unreachable, maybe for a moment; queries have their own time-outs
    except Py4JError as error:
        raise JobError(JVM_ENDED) from error
    for view in settings.views:
        for topic in (*view.source_topics, view.topic):
            if topic not in now or now[topic].id != topics[topic].id:
                raise recreated(topic, settings.checkpoint(view))
        before, after = topics[view.topic].partitions, now[view.topic].partitions
        if after != before:
            raise repartitioned(view.topic, before, after)
        for source in view.inputs:
            topic = source.topic
            before, after = topics[topic].partitions, now[topic].partitions
            if after == before or settings.once:
                continue
            if settings.is_real_time(view):
                raise needs_slots(topic, before, after)
            if source.lateness_s is not None:
                raise unobserved(view.name, topic, before, after)
    moved_keys.check(now, statuses)


def topics_of(views: Iterable[View]) -> set[str]:
    """The raw topics and view topics of these views."""
    return {topic for view in views for topic in (*view.source_topics, view.topic)}


def check_identity(session: SparkSession, checkpoint: str, ids: dict[str, str]) -> None:
    """Stores the topics' ids in the checkpoint. Raises ``JobError`` if one differs from the stored
    one.

    ``checkpoint`` is a path of any file system that Hadoop supports.
    """
    before = _stored_ids(session, checkpoint)
    for topic, topic_id in ids.items():
        if before.get(topic, topic_id) != topic_id:
            raise recreated(topic, checkpoint)
    if before != ids:
        CheckpointFiles(session).replace_json(_ids_file(checkpoint), ids)


def _stored_ids(session: SparkSession, checkpoint: str) -> dict[str, str]:
    return CheckpointFiles(session).read_json(_ids_file(checkpoint)) or {}


def _ids_file(checkpoint: str) -> str:
    return f"{checkpoint}/topics.json"
