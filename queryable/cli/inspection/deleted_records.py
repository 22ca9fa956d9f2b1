"""Finds records that the broker deletes although the store behind the changelog still has them.

A store expires records relative to its newest record. The broker deletes relative to its own clock.
If event time stops, or is far in the past, the broker deletes records that the store keeps, and the
topic does not show which records these were. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from model.times import DAY, duration_text
from queryable.cli.inspection.samples import TopicSample

NO_LIMIT = 10**14
"""ms; Kafka's value for no limit is -1, but some set a very large number."""


class DeletedRecords(NamedTuple):
    """`text` is for people. `empty`: the partitions whose records were all deleted."""

    text: str
    empty: list[int]
    is_topic_empty: bool


def broker_retention(config: Mapping[str, str]) -> int | None:
    """How long (ms) the broker keeps records; None: it does not delete by time."""
    ms = int(config.get("retention.ms") or -1)
    is_deleted = "delete" in config.get("cleanup.policy", "delete")
    return ms if is_deleted and 0 <= ms < NO_LIMIT else None


def find_deleted_records(
    config: Mapping[str, str], sample: TopicSample, store_retention: int | None, now: int
) -> DeletedRecords | None:
    """`store_retention` (ms): None if it is not known; the default is the topic's less a day.
    `now`: ms since 1970."""
    retention = broker_retention(config)
    if retention is None:
        return _compacted_versions(config, sample, now)
    deleted = sum(start for start, _ in sample.offsets)
    empty = [number for number, (start, end) in enumerate(sample.offsets) if 0 < start == end]
    if empty:
        is_topic_empty = all(start == end for start, end in sample.offsets)
        records = sum(sample.offsets[number][1] for number in empty)
        place = "the topic" if is_topic_empty else _partitions(empty)
        return DeletedRecords(
            f"the broker has deleted all {records} records of {place} (retention.ms "
            f"{duration_text(retention)}); the store may still have them",
            empty,
            is_topic_empty,
        )
    if store_retention is None:
        expected = max(retention - DAY, 0)
    else:
        expected = min(store_retention, retention)
    old = _old_partitions(sample, now - retention + expected)
    if not old or retention == expected:
        return None
    done = f"has deleted {deleted} records, and " if deleted else ""
    return DeletedRecords(
        f"{_age(old, now)}; the broker deletes records older than {duration_text(retention)} by "
        f"its clock: it {done}deletes records that the store still keeps, because the store "
        "expires relative to its newest record",
        [],
        False,
    )


def _compacted_versions(
    config: Mapping[str, str], sample: TopicSample, now: int
) -> DeletedRecords | None:
    """For a versioned store. Compaction keeps versions for `min.compaction.lag.ms`: the history
    plus a day."""
    lag = int(config.get("min.compaction.lag.ms") or 0)
    old = _old_partitions(sample, now - DAY)
    if lag <= DAY or not old:
        return None
    return DeletedRecords(
        f"{_age(old, now)}; the broker compacts records older than {duration_text(lag)} by its "
        "clock: it deletes versions that the store still keeps, because the store expires relative "
        "to its newest record",
        [],
        False,
    )


def _old_partitions(sample: TopicSample, before: int) -> dict[int, int]:
    """The newest timestamp (ms) of each partition in which it is less than `before`."""
    newest: dict[int, int] = {}
    for record in sample.records:
        newest[record.partition] = max(record.timestamp, newest.get(record.partition, 0))
    return {number: time for number, time in newest.items() if time < before}


def _age(old: Mapping[int, int], now: int) -> str:
    seconds = (now - max(old.values())) // 1000
    age = duration_text(seconds * 1000)
    return f"the newest record of {_partitions(sorted(old))} is {age} old"


def _partitions(numbers: list[int]) -> str:
    return f"partition{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
