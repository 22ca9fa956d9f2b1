"""The stored form of a store's metadata: stores of earlier versions stay readable."""

from __future__ import annotations

import orjson

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
    found = StoreMetadata.decode(orjson.dumps(STORED))
    assert (found.mispartitioned, found.dead_letters) == (2, 1)
    assert orjson.loads(found.encode()) == STORED


def test_round_trip() -> None:
    assert StoreMetadata.decode(metadata().encode()) == metadata()
