"""Records that the broker deletes although the store keeps them."""

from __future__ import annotations

from model.times import DAY
from queryable.cli.inspection.deleted_records import find_deleted_records
from tests.unit.queryable.cli.inspection.records import (
    BOTH,
    COMPACT,
    HOUR,
    NOW,
    sample_of,
)


def test_records_that_the_broker_deletes_and_the_store_keeps() -> None:
    kept = sample_of([NOW, NOW - HOUR], [(5, 9), (0, 2)])
    assert find_deleted_records(BOTH, kept, 2 * HOUR, NOW + HOUR) is None
    # event time is far in the past: the broker has deleted some records and will delete the others
    result = find_deleted_records(
        BOTH, sample_of([NOW, NOW - 3 * DAY], [(0, 9), (5, 9)]), 2 * HOUR, NOW
    )
    assert result is not None
    assert "partition 1 is 3d old" in result.text
    assert "has deleted 5 records" in result.text
    assert not result.is_topic_empty
    # if the store's retention is unknown, it is assumed to be a day less than the topic's
    assert find_deleted_records(BOTH, kept, None, NOW + 20 * HOUR) is None
    assert find_deleted_records(BOTH, kept, None, NOW + 25 * HOUR) is not None
    # one partition is empty now
    result = find_deleted_records(BOTH, sample_of([NOW], [(0, 1), (7, 7), (0, 0)]), None, NOW)
    assert result is not None
    assert (result.empty, result.is_topic_empty) == ([1], False)
    for config in (COMPACT, {**BOTH, "retention.ms": "-1"}):
        assert find_deleted_records(config, sample_of([], [(7, 7)]), None, NOW) is None


def test_versions_that_compaction_deletes() -> None:
    versioned = {**COMPACT, "min.compaction.lag.ms": str(2 * HOUR + DAY)}
    there = sample_of([NOW], [(0, 9)])
    assert find_deleted_records(versioned, there, 2 * HOUR, NOW + 23 * HOUR) is None
    result = find_deleted_records(versioned, there, 2 * HOUR, NOW + 25 * HOUR)
    assert result is not None
    assert "compacts" in result.text
