"""Task slots for real-time views: each partition of a source has a task that runs all the time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from spark.errors import JobError, Unavailable
from spark.kafka_admin import KafkaAdmin, Topic
from spark.session import submitted
from spark.settings import Settings

_LOCAL = re.compile(r"local(\[.*\])?")
_OTHERS = 2  # slots for micro-batches, as in the default master


def needed(settings: Settings, topics: Mapping[str, Topic]) -> int:
    """The number of slots that the real-time views need."""
    return sum(
        topics[source.topic].partitions
        for view in settings.views
        if settings.is_real_time(view)
        for source in view.streams
    )


def local_master(session: SparkSession, settings: Settings) -> str | None:
    """The default master with enough slots; None if the job needs no other master, or if the user
    has chosen one. Waits for the sources."""
    sources = {
        source.topic: view.partitions
        for view in settings.views
        if settings.is_real_time(view)
        for source in view.streams
    }
    if not sources or submitted() or "spark.master" in settings.conf:
        return None
    # The topic of another view of this job may not exist yet.
    made = {view.topic: Topic("", view.partitions) for view in settings.views}
    with KafkaAdmin(session, settings.kafka) as admin:
        awaited = admin.wait_for(
            sources.keys() - made.keys(), settings.topics_deadline, on_wait=lambda _: None
        )
        topics = made | awaited | admin.topics(sources)
    return f"local[{_OTHERS + needed(settings, topics)}]"


def check_slots(session: SparkSession, settings: Settings, topics: Mapping[str, Topic]) -> None:
    """Raises ``JobError`` if there are too few slots for all real-time views and one other task;
    ``Unavailable`` on a cluster, where executors may still start."""
    wanted = needed(settings, topics) + 1
    context: Any = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    slots = context.maxNumConcurrentTasks(profile)
    if slots >= wanted:
        return
    message = (
        f"the real-time views need {wanted - 1} task slots (one for each partition of their "
        f"sources) and one for all other work, but there are {slots}."
    )
    if _LOCAL.fullmatch(str(session.sparkContext.master)):
        raise JobError(f"{message} Start with --master local[{wanted + 1}].")
    raise Unavailable(f"{message} Start more executors, or executors with more cores.")
