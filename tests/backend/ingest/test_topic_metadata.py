"""When a store partition kept from before cannot be continued."""

import pytest

from backend.ingest.topic_metadata import TopicMetadata, why_rebuild
from model.records import StoreMetadata
from tests.support.in_process.examples import ORDERS, metadata, view

HOUR = 3_600_000


def facts(start: int = 10, end: int = 100, delete_retention: int | None = None) -> TopicMetadata:
    return TopicMetadata("topic-1", 1, {0: start}, {0: end}, delete_retention, 0.0)


def why(
    position: int | None = 50,
    kept: StoreMetadata | None = metadata(),  # noqa: B008
    said: TopicMetadata = facts(),  # noqa: B008
    now_ms: int = 0,
) -> str | None:
    return why_rebuild(ORDERS, 0, position, kept, said, now_ms)


@pytest.mark.parametrize("position", [10, 50, 100])
def test_what_lies_in_the_log_goes_on(position: int) -> None:
    assert why(position) is None


def test_added_partitions_are_no_reason() -> None:
    assert why(kept=metadata(partitions=7)) is None


@pytest.mark.parametrize(
    ("position", "kept", "reason"),
    [
        (None, metadata(), "it is empty"),
        (50, None, "it is empty"),
        (50, metadata(view(key="bytes")), "definition has changed"),
        (50, metadata(topic_id="topic-0"), "topic orders was deleted and recreated"),
        (101, metadata(), "it ends at 100, before the position 101"),
        (9, metadata(), "starts at 10, after the position 9"),
    ],
)
def test_what_cannot_go_on(position: int | None, kept: StoreMetadata | None, reason: str) -> None:
    assert reason in (why(position, kept) or "")


@pytest.mark.parametrize(
    ("away_ms", "position", "retention", "rebuilt"),
    [
        (HOUR // 2, 50, HOUR, False),
        (HOUR // 2 + 1, 50, HOUR, True),
        # nothing was written meanwhile: no tombstone can have been missed
        (9 * HOUR, 100, HOUR, False),
        # not compacted: what is gone is before the log's start
        (9 * HOUR, 50, None, False),
        (1, 50, 0, True),
    ],
)
def test_an_absence(away_ms: int, position: int, retention: int | None, rebuilt: bool) -> None:
    said = facts(delete_retention=retention)
    found = why(position, metadata(alive_at=5 * HOUR), said, now_ms=5 * HOUR + away_ms)
    assert (found is not None) == rebuilt
    assert found is None or f"delete.retention.ms={retention}" in found
