"""From consumed records to one batch of one store partition.

The hot loop of ingest: no record is copied but into the batch, none is logged, and what is checked
for all records at once is checked once (the partitioner, in NumPy).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from backend.core.partitioner import partitions_of_batch
from backend.core.records import ENTRY, entry_head
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
    put, delete = batch.put, batch.delete
    check_key, to_store = view.key_codec.check, view.key_codec.to_store
    check_value, value_to_store = view.value_codec.check, view.value_codec.to_store
    keep_value_bytes = view.value != "none"
    keys: list[bytes] = []
    dead: list[DeadLetter] = []
    for record in records:
        offset = record.offset()
        if offset < position:
            continue  # fetched for another view of the same topic
        key = record.key()
        if key is None:
            dead.append(DeadLetter(record, "the record has no key"))
            continue
        value = record.value()
        try:
            check_key(key)
            if value is None:
                delete(ENTRY + to_store(key))
            else:
                check_value(value)
                head = entry_head(record.timestamp()[1], offset)
                kept = value if keep_value_bytes else value_to_store(value)
                put(ENTRY + to_store(key), head + kept)
        except ValueError as e:
            part = "value" if _is_sound(check_key, key) else "key"
            dead.append(DeadLetter(record, f"{part}: {e}"))
            continue
        keys.append(key)
    return keys, dead


def _is_sound(check: Callable[[bytes], None], raw: bytes) -> bool:
    try:
        check(raw)
    except ValueError:
        return False
    return True


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
