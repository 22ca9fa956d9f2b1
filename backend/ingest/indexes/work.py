"""Builds indexes of entries that were there before, and sweeps stale keys, a slice at a time.

The ingest thread does it between records, so no entry changes meanwhile. While reads are served, a
slice takes some 0.2 ms, and a pause follows (`ReadPriority`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice

from backend.ingest.indexes.partition_indexes import ALL_KEYS, PartitionIndexes, first_entries
from backend.ingest.read_priority import ReadPriority
from backend.ingest.store_partitions import StorePartition
from backend.ingest.writer import PartitionWriter
from model.formats.schemas import SchemaNotYet
from model.indexes.encoding import UNREADABLE, fields_of_key, key_head, stored_key_of
from model.kinds.layout import ALL
from model.records import is_tombstone
from model.rows.row_view import Pair

_SLICE = 500  # entries
_SLICE_BYTES = 1 << 18
WORK = 0.05  # s for all store partitions, in a round of ingest
_FEW = 1_000  # keys: fewer are not worth a sweep


class IndexWork:
    """Does the work on indexes that is left. Only the ingest thread may use it."""

    def __init__(self, writer: PartitionWriter, read_priority: ReadPriority) -> None:
        self._writer = writer
        self._read_priority = read_priority

    def run(self, store_partition: StorePartition, until: float) -> None:
        """Do work on the indexes of a store partition, until there is none, or until a time (s,
        monotonic). Raises StoreError."""
        while (indexes := next_work(store_partition)) and time.monotonic() < until:
            self._read_priority.begin(is_lagging=False)
            try:
                if indexes.is_building:
                    self._build(store_partition, indexes)
                else:
                    self._sweep(store_partition, indexes)
            except SchemaNotYet:  # it is being fetched; the next round tries again
                return

    def _build(self, store_partition: StorePartition, indexes: PartitionIndexes) -> None:
        store = store_partition.store
        low = ALL[0] if indexes.reached is None else indexes.reached + b"\0"
        entries = store.scan(low, ALL[1], once=True)
        pairs = list(first_entries(entries, _SLICE, _SLICE_BYTES))
        for piece in self._read_priority.batches(pairs, indexes):
            batch = store.new_batch()
            with_values = [pair for pair in piece if not is_tombstone(pair[1])]
            indexes.add(batch, with_values, only_missing=True)
            if piece:
                indexes.built(batch, piece[-1][0], len(piece))
            self._write(store_partition, batch)
        if not pairs:
            batch = store.new_batch()
            indexes.built(batch, None, 0)
            self._write(store_partition, batch)
            indexes.use_built()

    def _sweep(self, store_partition: StorePartition, indexes: PartitionIndexes) -> None:
        store = store_partition.store
        if indexes.sweep_from is None:
            indexes.begin_sweep()
        low = indexes.sweep_from or ALL_KEYS[0]
        keys = list(islice(store.scan(low, ALL_KEYS[1], once=True), _SLICE))
        for piece in self._read_priority.batches(keys, indexes):
            batch = store.new_batch()
            stale, settled = _stale_keys(store_partition, indexes, piece)
            for key in stale:
                batch.delete(key)
            indexes.add(batch, settled)
            self._write(store_partition, batch)
            indexes.swept += len(stale)
        indexes.sweep_from = keys[-1][0] + b"\0" if keys else None
        indexes.sweeps += not keys

    def _write(self, store_partition: StorePartition, batch: object) -> None:
        self._writer.write(store_partition, batch, store_partition.progress.position)


def next_work(store_partition: StorePartition) -> PartitionIndexes | None:
    """The indexes of a store partition if there is work to do on them now."""
    indexes = store_partition.indexes
    if indexes is None or store_partition.store.is_bulk_loading:  # a read would end the load
        return None
    if not store_partition.progress.answerable:
        indexes.puts = 0  # most of them are of new entries
    has_work = (
        indexes.is_building or indexes.sweep_from is not None or _is_stale(store_partition, indexes)
    )
    return indexes if has_work else None


def _is_stale(store_partition: StorePartition, indexes: PartitionIndexes) -> bool:
    """Whether a sweep is worth its work: half of the entries have new keys since the last one, or
    look-ups have read more stale keys than others, or an entry must get its keys."""
    if indexes.sweep_is_due or indexes.stale > max(indexes.valid, _FEW):
        return True
    if indexes.puts < _FEW:
        return False
    return indexes.puts > indexes.keys_each(indexes.ids) * store_partition.entries() // 2


def _stale_keys(
    store_partition: StorePartition, indexes: PartitionIndexes, keys: Iterable[Pair]
) -> tuple[list[bytes], list[Pair]]:
    """The index keys that no entry has; and the entries whose values could be read when the key
    was written, and cannot now, or the other way round: they may lack keys. Raises SchemaNotYet."""
    columns = {
        key_head(indexes.ids[index.name]): number
        for number, index in enumerate(indexes.view.indexes)
    }
    named = [(key, size, stored_key_of(key, size)) for key, size in keys]
    stored_keys = list(dict.fromkeys(stored_key for _, _, stored_key in named))
    stored = store_partition.store.get_many(stored_keys)
    pairs = [
        (key, entry)
        for key, entry in zip(stored_keys, stored, strict=True)
        if entry is not None and not is_tombstone(entry)
    ]
    columns_now = indexes.fields.read_to_write(pairs, waits=True) if pairs else []
    now = [set(zip(*column, strict=True)) for column in columns_now]
    at = {key: number for number, (key, _) in enumerate(pairs)}
    stale: list[bytes] = []
    settled: set[int] = set()
    for index_key, size, stored_key in named:
        column, number = columns.get(index_key[:3]), at.get(stored_key)
        if column is None or number is None:
            stale.append(index_key)
            continue
        fields = fields_of_key(index_key, size)
        if (fields, number) not in now[column]:
            stale.append(index_key)
            if fields == UNREADABLE or (UNREADABLE, number) in now[column]:
                settled.add(number)
    return stale, [pairs[number] for number in sorted(settled)]
