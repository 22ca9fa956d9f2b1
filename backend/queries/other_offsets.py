"""Offsets in `min_offset` that are not of the key's partition.

Most of these offsets belong to other keys: a session sends the offsets of all partitions that it
has seen. But if partitions have just been added, an offset may belong to the key's own record, in a
partition that is new for the key, and this instance may not know of the new partitions yet.

An offset belongs to another key if its record was written with a number of partitions that is known
here. That is certain

- if this instance has applied the record: before ingest applies a record that does not fit the
  known numbers, it fetches the number of partitions again (`ingest.mispartitioned`);
- if another instance has applied the record, and knows no numbers that this instance does not know;
- if the number of partitions was fetched after the request arrived.
"""

from __future__ import annotations

from collections.abc import Mapping

from backend.instance.context import QueryContext
from backend.queries.moved_keys import homes_of, known_counts
from backend.wire.scan import ScanResponse
from model.problems import RetryLater
from model.records import hash_of_topic
from model.views import View


class OffsetsInDoubt(RetryLater):
    """It is not known yet whether these offsets (by partition) belong to the key."""

    def __init__(self, view: View, offsets: Mapping[int, int]) -> None:
        partition = min(offsets)
        super().__init__(
            "not-up-to-offset",
            f"It is not known here yet which partition of topic {view.topic} has the key: offset "
            f"{offsets[partition]} of partition {partition} may be of the key.",
            partition=partition,
        )
        self.offsets = offsets


class OtherOffsets:
    """Tells which offsets of one view's topic belong to other keys, as far as is known here."""

    def __init__(self, view: View, context: QueryContext) -> None:
        self._view = view
        self._context = context
        self._store_partitions = context.store_partitions.for_view(view.name)
        # hash of the topic, partition -> position: all records before it were written with known
        # numbers of partitions
        self._certain: dict[tuple[int, int], int] = {}

    def check(self, key: bytes, offsets: Mapping[int, int], asked_at: float) -> None:
        """Raise OffsetsInDoubt if one of these offsets may belong to the key, in a partition that
        is not known to be the key's. `asked_at`: when the request arrived (s, monotonic)."""
        # before the numbers are looked up: ingest learns of them before it applies the records
        left = {p: offset for p, offset in offsets.items() if not self._applied(p, offset)}
        if not left:
            return
        homes = homes_of(self._view, key, known_counts(self._context, self._view))
        doubtful = {
            partition: offset
            for partition, offset in left.items()
            if partition not in homes and self.is_in_doubt(partition, offset)
        }
        metadata = self._context.metadata_poller.latest.get(self._view.topic)
        if doubtful and (metadata is None or metadata.fetched_at < asked_at):
            raise OffsetsInDoubt(self._view, doubtful)

    def is_in_doubt(self, partition: int, offset: int) -> bool:
        """Whether no other instance has applied the record, as far as is known here."""
        return self._certain.get((self._topic_hash(), partition), 0) <= offset

    def note(self, response: ScanResponse) -> None:
        """Note what another instance has applied, and which numbers of partitions it knows."""
        topic_hash = self._topic_hash()
        known = known_counts(self._context, self._view)
        if not topic_hash or not response.partition_counts or {*response.partition_counts} - known:
            return
        for partition, position in response.positions.items():
            place = topic_hash, partition
            self._certain[place] = max(position, self._certain.get(place, 0))

    def _topic_hash(self) -> int:
        """The hash of the topic's id, because the topic may be created again; 0: unknown."""
        metadata = self._context.metadata_poller.latest.get(self._view.topic)
        if metadata is not None:
            return hash_of_topic(metadata.topic_id)
        # an instance without a partition of the topic does not poll it
        return self._context.group.placed(self._view).topic_hash

    def _applied(self, partition: int, offset: int) -> bool:
        store_partition = self._store_partitions.get(partition)
        return store_partition is not None and store_partition.progress.position > offset
