"""How far the job has read the raw topics, as its consumer groups and its progress file say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from model.kafka.admin import LATEST, offsets
from model.views import SPARK_GROUP_PREFIX
from spark.view import View
from tests.pipelines.raw_records import PARTITIONS

Offsets = dict[tuple[str, int], int]
"""By topic and partition."""

_TIMEOUT = 20.0  # s for an answer of the broker


def all_run(progress: dict[str, Any]) -> bool:
    """Whether each view has reported its position since the job's start."""
    return bool(progress) and all(each["source_offsets"] for each in progress.values())


def unread(admin: AdminClient, views: Sequence[View], progress: dict[str, Any]) -> list[str]:
    """The views whose groups are not at the ends of their raw topics, and the raw topics whose
    dead letters are not all written."""
    topics = sorted({topic for view in views for topic in view.source_topics})
    ends = _ends(admin, topics)
    behind = [view.name for view in views if _committed(admin, view) != _of(view, ends)]
    return behind + [
        f"the dead letters of {topic}"
        for topic in topics
        if not any(
            offsets.get(topic) == {str(number): ends[topic, number] for number in range(PARTITIONS)}
            for offsets in (each["dead_letter_offsets"] for each in progress.values())
        )
    ]


def _of(view: View, ends: Offsets) -> Offsets:
    return {place: offset for place, offset in ends.items() if place[0] in view.source_topics}


def _committed(admin: AdminClient, view: View) -> Offsets:
    group = ConsumerGroupTopicPartitions(SPARK_GROUP_PREFIX + view.name)
    [future] = admin.list_consumer_group_offsets([group]).values()
    found = future.result(_TIMEOUT).topic_partitions
    return {(each.topic, each.partition): each.offset for each in found}


def _ends(admin: AdminClient, topics: Sequence[str]) -> Offsets:
    found = offsets(admin, dict.fromkeys(topics, range(PARTITIONS)), LATEST, _TIMEOUT)
    return {(topic, n): offset for topic, ends in found.items() for n, offset in ends.items()}
