"""Tests of the stored form of store metadata, which stores of older versions have, too."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from model.records import StoreMetadata
from tests.support.in_process.examples import metadata

STORED = {
    "view_hash": "0123456789abcdef",
    "topic_id": "topic-1",
    "partitions": 3,
    "leader_epoch": 7,
    "answerable": True,
    "mis_partitioned": 2,
    "dead_letters": 1,
    "alive_at": 5,
}


def test_stored_names() -> None:
    decoded = StoreMetadata.decode(orjson.dumps(STORED))
    assert (decoded.mispartitioned, decoded.dead_letters) == (2, 1)
    assert orjson.loads(decoded.encode()) == STORED


def test_round_trip() -> None:
    assert StoreMetadata.decode(metadata().encode()) == metadata()
    grown = replace(metadata(), earlier_counts=(2, 3))
    assert StoreMetadata.decode(grown.encode()) == grown


@pytest.mark.parametrize(("complete_at", "last"), [(None, 5), (0, None), (3, 3)])
def test_when_a_store_was_last_complete(complete_at: int | None, last: int | None) -> None:
    stored = metadata(alive_at=5, complete_at=complete_at)
    assert StoreMetadata.decode(stored.encode()) == stored
    assert stored.last_complete == last
