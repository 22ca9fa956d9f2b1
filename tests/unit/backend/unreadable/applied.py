"""Records that are applied to a store partition like in ingest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backend.ingest.batch import build_batch
from backend.ingest.store_partitions import StorePartition
from tests.support.in_process.fakes import Rec
from tests.support.in_process.world import World


def apply(opened: StorePartition, records: list[Rec]) -> None:
    batch: Any = opened.store.new_batch()
    result = build_batch(batch, opened.view, records, opened.store.stream_time)
    stored = sum(letter.is_stored for letter in result.dead_letters)
    unreadable = opened.metadata.unreadable_values + stored
    opened.metadata = replace(opened.metadata, unreadable_values=unreadable)
    opened.store.write(batch, records[-1].offset() + 1, opened.metadata)
    opened.progress.applied(records[-1].offset() + 1)


def put(world: World, key: bytes, value: bytes | None, time: int = 7) -> tuple[int, int]:
    """Apply a record to its partition; partition and offset."""
    partition = world.partition(world.view.layout.bare_key(key))
    opened = world.store_partitions[partition]
    offset = opened.store.position or 0
    apply(opened, [Rec(offset, key, value, time)])
    return partition, offset
