"""How far the job has read the raw topics, as its consumer groups and its progress file say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from spark.settings import GROUP_PREFIX
from spark.view import View
from tests.pipelines.raw_records import PARTITIONS

_TIMEOUT = 20.0  # s for an answer of the broker


def all_run(progress: dict[str, Any]) -> bool:
    """Whether each view has reported its position since the job's start."""
    return bool(progress) and all(each["source_offsets"] for each in progress.values())


def unread(admin: AdminClient, views: Sequence[View], progress: dict[str, Any]) -> list[str]:
    """The views whose groups, or whose dead letters, are not at the ends of their raw topics."""
    return [
        view.name
        for view in views
        if _committed(admin, view) != _ends(admin, view.source)
        or not _has_dead_letters(admin, views, view, progress)
    ]


def _has_dead_letters(
    admin: AdminClient, views: Sequence[View], view: View, progress: dict[str, Any]
) -> bool:
    """Only the first view of each raw topic writes its dead letters."""
    if view is not next(each for each in views if each.source == view.source):
        return True
    offsets = progress.get(view.name, {}).get("dead_letter_offsets", {}).get(view.source, {})
    return {int(number): at for number, at in offsets.items()} == _ends(admin, view.source)


def _committed(admin: AdminClient, view: View) -> dict[int, int]:
    group = ConsumerGroupTopicPartitions(GROUP_PREFIX + view.name)
    [future] = admin.list_consumer_group_offsets([group]).values()
    return {each.partition: each.offset for each in future.result(_TIMEOUT).topic_partitions}


def _ends(admin: AdminClient, topic: str) -> dict[int, int]:
    wanted = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(PARTITIONS)}
    found = admin.list_offsets(wanted, request_timeout=_TIMEOUT)
    return {each.partition: future.result(_TIMEOUT).offset for each, future in found.items()}
