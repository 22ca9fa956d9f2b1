"""Records that are applied to a store partition like in ingest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backend.ingest.batch import build_batch
from backend.ingest.indexes.partition_indexes import IndexedBatch, note_position
from backend.ingest.store_partitions import StorePartition
from tests.support.in_process.fakes import Rec
from tests.support.in_process.world import World


def apply(opened: StorePartition, records: list[Rec]) -> None:
    batch: Any = opened.store.new_batch()
    position = records[-1].offset() + 1
    indexed = None if opened.indexes is None else IndexedBatch(batch)
    result = build_batch(indexed or batch, opened.view, records, opened.store.stream_time)
    stored = sum(letter.is_stored for letter in result.dead_letters)
    unreadable = opened.metadata.unreadable_values + stored
    opened.metadata = replace(opened.metadata, unreadable_values=unreadable)
    if opened.indexes is not None and indexed is not None:
        opened.indexes.add_entries(indexed)
        note_position(batch, position)
    opened.store.write(batch, position, opened.metadata)
    opened.progress.applied(position)


def put(world: World, key: bytes, value: bytes | None, time: int = 7) -> tuple[int, int]:
    """Apply a record to its partition; partition and offset."""
    partition = world.partition(world.view.layout.bare_key(key))
    opened = world.store_partitions[partition]
    offset = opened.store.position or 0
    apply(opened, [Rec(offset, key, value, time)])
    return partition, offset
