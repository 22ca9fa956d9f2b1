"""Writing to a store partition: entries and position in one batch, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from backend.ingest.store_partitions import StorePartition
from model.records import StoreMetadata


class PartitionWriter:
    """Used by the ingest thread alone."""

    def __init__(self, on_news: Callable[[], None]) -> None:
        """`on_news()` is called when the group has to hear of something new."""
        self.on_news = on_news

    def write(
        self,
        held: StorePartition,
        batch: Any,
        position: int,
        identity: StoreMetadata | None = None,
        stream_time: int | None = None,
    ) -> None:
        """Write the batch with the position behind it; StoreError."""
        held.store.write(batch, position, identity, stream_time)
        if held.progress.applied(position):
            self.note_answerable(held)

    def write_state(self, held: StorePartition, position: int | None = None) -> None:
        """Write metadata and position without entries; StoreError."""
        at = held.progress.position if position is None else position
        self.write(held, held.store.new_batch(), at, held.identity)

    def note_answerable(self, held: StorePartition) -> None:
        """The store partition has reached the end that it had to reach: from now on it answers."""
        if not held.identity.answerable:
            held.identity = replace(held.identity, answerable=True)
            held.store.write(held.store.new_batch(), held.progress.position, held.identity)
        held.say_answerable()
        self.on_news()
