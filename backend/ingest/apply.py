"""From consumed records to one batch of one store partition.

The hot loop of ingest: no record is copied but into the batch, none is logged, and what is checked
for all records at once is checked once (the partitioner, in NumPy).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from backend.core.partitioner import partitions_of_batch
from backend.core.records import entry_head
from backend.core.views import View
from backend.ingest.protocols import Batch


class Record(Protocol):
    """A consumed record, as confluent-kafka gives it."""

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None: ...

    def offset(self) -> int: ...

    def timestamp(self) -> tuple[int, int]: ...

    def leader_epoch(self) -> int | None: ...


@dataclass(frozen=True)
class DeadLetter:
    """A record that is not of the view's formats, and why."""

    record: Record
    reason: str


def fill(
    batch: Batch, view: View, records: Sequence[Record], position: int
) -> tuple[list[bytes], list[DeadLetter]]:
    """Add the records from `position` on to the batch; the keys added, and what was not.

    A null value deletes; an undecodable record leaves the previous value as it is.
    """
    put, delete, head = batch.put, batch.delete, entry_head
    probe_key, probe_value = view.key_codec.probe, view.value_codec.probe
    stored_key, keeps_value = view.stored_key, view.value != "none"
    keys: list[bytes] = []
    dead: list[DeadLetter] = []
    for record in _from(records, position):
        key, value = record.key(), record.value()
        if key is None:
            dead.append(DeadLetter(record, "the record has no key"))
            continue
        try:
            probe_key(key)
            if value is None:
                delete(stored_key(key))
            else:
                probe_value(value)
                entry = head(record.timestamp()[1], record.offset())
                put(stored_key(key), entry + value if keeps_value else entry)
        except ValueError:
            dead.append(DeadLetter(record, _what_is_wrong(view, key, value)))
            continue
        keys.append(key)
    return keys, dead


def _from(records: Sequence[Record], position: int) -> Sequence[Record]:
    """Those from `position` on; before it are what was fetched for another view of the topic."""
    if not records or records[0].offset() >= position:
        return records
    return records[bisect_left(records, position, key=lambda record: record.offset()) :]


def _what_is_wrong(view: View, key: bytes, value: bytes | None) -> str:
    try:
        view.key_codec.check(key)
    except ValueError as e:
        return f"key: {e}"
    try:
        view.value_codec.check(value or b"")
    except ValueError as e:
        return f"value: {e}"
    raise AssertionError(f"{view.key} key or {view.value} value: probe and check differ")


def count_mis_partitioned(
    view: View, keys: Sequence[bytes], partition: int, counts: Sequence[int]
) -> int:
    """How many of the keys belong to another partition, under each of the partition counts.

    After partitions were added, a record is where it belongs if one of the counts puts it here.
    """
    if not keys:
        return 0
    misplaced = np.ones(len(keys), dtype=bool)
    for count in counts:
        misplaced &= partitions_of_batch(view.partitioner, keys, count) != partition
        if not misplaced.any():
            return 0
    return int(misplaced.sum())
