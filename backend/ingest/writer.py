"""Writes to a store partition: entries and position in one batch, then the progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from backend.ingest.indexes.partition_indexes import note_position
from backend.ingest.store_partitions import StorePartition
from model.records import LastRecord, StoreMetadata


class PartitionWriter:
    """Writes to store partitions. Only the ingest thread may use it."""

    def __init__(self, on_state_change: Callable[[], None]) -> None:
        """`on_state_change()`: called when the metadata that this instance reports to the group's
        leader may have changed."""
        self.on_state_change = on_state_change

    def write(
        self,
        store_partition: StorePartition,
        batch: Any,
        position: int,
        metadata: StoreMetadata | None = None,
        stream_time: int | None = None,
        last_record: LastRecord | None = None,
    ) -> None:
        """Write a batch, the position after it, and what identifies its last record. Raises
        StoreError."""
        if store_partition.indexes is not None:
            note_position(batch, position)
        store_partition.store.write(batch, position, metadata, stream_time, last_record)
        if store_partition.progress.applied(position):
            self.note_answerable(store_partition)

    def verified(self, store_partition: StorePartition) -> None:
        """Note that the log continues where the store ends."""
        store_partition.to_verify = None
        if store_partition.progress.verify():
            self.note_answerable(store_partition)

    def write_state(self, store_partition: StorePartition) -> None:
        """Write metadata and position without entries. Raises StoreError."""
        position = store_partition.progress.position
        self.write(
            store_partition, store_partition.store.new_batch(), position, store_partition.metadata
        )

    def note_answerable(self, store_partition: StorePartition) -> None:
        """Record that the store partition has reached its target offset and answers from now on."""
        if not store_partition.metadata.answerable:
            store_partition.metadata = replace(store_partition.metadata, answerable=True)
            store_partition.store.write(
                store_partition.store.new_batch(),
                store_partition.progress.position,
                store_partition.metadata,
            )
        store_partition.log_answerable()
        self.on_state_change()
