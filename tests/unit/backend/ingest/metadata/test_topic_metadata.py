"""Tests of when an existing store must be rebuilt."""

import pytest

from backend.ingest.metadata.topic_metadata import TopicMetadata, rebuild_reason
from model.records import StoreMetadata
from tests.support.in_process.examples import ORDERS, metadata, view

HOUR = 3_600_000


def topic_metadata(
    start: int = 10, end: int = 100, delete_retention: int | None = None
) -> TopicMetadata:
    return TopicMetadata("topic-1", 1, {0: start}, {0: end}, delete_retention, 0.0)


def reason(
    position: int | None = 50,
    stored: StoreMetadata | None = metadata(),  # noqa: B008
    topic: TopicMetadata = topic_metadata(),  # noqa: B008
    now_ms: int = 0,
) -> str | None:
    return rebuild_reason(ORDERS, 0, position, stored, topic, now_ms)


@pytest.mark.parametrize("position", [10, 50, 100])
def test_a_position_within_the_log(position: int) -> None:
    assert reason(position) is None


def test_added_partitions_do_not_cause_a_rebuild() -> None:
    assert reason(stored=metadata(partitions=7)) is None


@pytest.mark.parametrize(
    ("position", "stored", "expected"),
    [
        (None, metadata(), "it is empty"),
        (50, None, "it is empty"),
        (50, metadata(view(key="bytes")), "definition has changed"),
        (50, metadata(topic_id="topic-0"), "topic orders was deleted and recreated"),
        (101, metadata(), "it ends at 100, before the position 101"),
        (9, metadata(), "starts at 10, after the position 9"),
    ],
)
def test_reasons_to_rebuild(
    position: int | None, stored: StoreMetadata | None, expected: str
) -> None:
    assert expected in (reason(position, stored) or "")


@pytest.mark.parametrize(
    ("offline_ms", "position", "retention", "rebuilt"),
    [
        (HOUR // 2, 50, HOUR, False),
        (HOUR // 2 + 1, 50, HOUR, True),
        # nothing was written since, so no tombstone was missed
        (9 * HOUR, 100, HOUR, False),
        # not compacted: only records before the log start were deleted
        (9 * HOUR, 50, None, False),
        (1, 50, 0, True),
    ],
)
def test_a_store_that_was_offline(
    offline_ms: int, position: int, retention: int | None, rebuilt: bool
) -> None:
    topic = topic_metadata(delete_retention=retention)
    now_ms = 5 * HOUR + offline_ms
    # it was open, but its log was not read
    stuck = metadata(alive_at=now_ms, complete_at=5 * HOUR)
    # it is in its first replay
    incomplete = metadata(alive_at=5 * HOUR, complete_at=0)
    for stored in (metadata(alive_at=5 * HOUR), stuck, incomplete):
        found = reason(position, stored, topic, now_ms=now_ms)
        assert (found is not None) == rebuilt
        assert found is None or f"delete.retention.ms={retention}" in found
