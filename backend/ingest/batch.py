"""Builds a write batch for one store partition from consumed records.

The hot loop of ingest: records are copied only into the batch, none is logged, and partitions are
checked for all records at once (in NumPy).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from backend.ingest.protocols import Batch, RecordBatch
from model.formats.schemas import SchemaNotYet
from model.kinds import expiry
from model.partitioner_numpy import partitions_of_batch
from model.records import ENTRY, deleted_entry, entry_head
from model.views import ANY_PARTITION, View

_NO_KEY = "the record has no key"


class Record(Protocol):
    """A consumed record, as confluent-kafka gives it."""

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None: ...

    def offset(self) -> int: ...

    def timestamp(self) -> tuple[int, int]: ...

    def leader_epoch(self) -> int | None: ...


@dataclass(frozen=True)
class DeadLetter:
    """A record that cannot be decoded in the view's formats, and why."""

    record: Record
    reason: str


@dataclass
class BatchResult:
    """The outcome of a run of records: the bare keys added, dead letters, and the stream time."""

    keys: list[bytes]
    dead: list[DeadLetter]
    stream_time: int | None  # ms; unchanged if the view has no retention
    waiting: SchemaNotYet | None = None
    stopped: int = 0  # if `waiting`: index of the first record that has to wait
    ahead: int = expiry.FOREVER  # ms: the smallest time that stream time may not reach yet


def build_batch(
    batch: Batch,
    view: View,
    records: Sequence[Record],
    position: int,
    stream_time: int | None = None,
    reached: int = expiry.FOREVER,
    stores_tombstone: Callable[[bytes], bool] | None = None,
) -> BatchResult:
    """Add the records from `position` on to the batch.

    A null value deletes the key. An undecodable record leaves the previous value in place. A record
    whose schema is not available yet ends the run.

    `reached` (ms): later times do not advance the stream time yet. `stores_tombstone(bare key)`:
    whether a tombstone of this key must be stored as an entry.
    """
    run = _from_position(records, position)
    if view.is_custom:
        result = _build_custom(cast(RecordBatch, batch), view, run)
    elif view.kind.one_entry_per_key and view.retention is None:
        result = _build_latest(batch, view, run, stream_time, stores_tombstone)
    else:
        result = _build_timed(batch, view, run, stream_time, stores_tombstone, reached)
    if result.waiting is None:
        return result
    # each record that was processed is among the keys or the dead letters
    done = len(result.keys) + len(result.dead)
    result.stopped = len(records) - len(run) + done
    return result


def _build_latest(
    batch: Batch,
    view: View,
    records: Sequence[Record],
    stream_time: int | None,
    stores_tombstone: Callable[[bytes], bool] | None,
) -> BatchResult:
    """One entry per key, no times to check: the loop for most records."""
    put, delete, head = batch.put, batch.delete, entry_head
    probe_key, probe_value = view.key_codec.probe, view.value_codec.probe
    keeps_value = view.value_codec.stores_values
    # a C function, if the stored bytes are the record's
    stored_key = ENTRY.__add__ if view.key_codec.keeps_bytes else view.layout.stored_key
    keys: list[bytes] = []
    dead: list[DeadLetter] = []
    for record in records:
        key, value = record.key(), record.value()
        if key is None:
            dead.append(DeadLetter(record, _NO_KEY))
            continue
        try:
            probe_key(key)
            if value is None:
                if stores_tombstone is not None and stores_tombstone(key):
                    gone = deleted_entry(record.timestamp()[1], record.offset())
                    put(stored_key(key), gone)
                else:
                    delete(stored_key(key))
            else:
                probe_value(value)
                entry = head(record.timestamp()[1], record.offset())
                put(stored_key(key), entry + value if keeps_value else entry)
        except ValueError:
            dead.append(DeadLetter(record, _error_of(view, key, key, value)))
            continue
        except SchemaNotYet as not_yet:
            return BatchResult(keys, dead, stream_time, not_yet)
        keys.append(key)
    return BatchResult(keys, dead, stream_time)


def _build_timed(
    batch: Batch,
    view: View,
    records: Sequence[Record],
    stream_time: int | None,
    stores_tombstone: Callable[[bytes], bool] | None,
    reached: int,
) -> BatchResult:
    """Entries with a time: windows, sessions, versions, and all views with a retention."""
    put, delete = batch.put, batch.delete
    kind, retention = view.kind, view.retention
    keeps_value = view.value_codec.stores_values
    has_versions, time_of = kind.has_versions, kind.time_of
    result = BatchResult([], [], stream_time)
    for bare, stored_key, value, timestamp, offset in _valid_records(view, records, result):
        result.keys.append(bare)
        stays = (
            value is not None
            or has_versions
            or (stores_tombstone is not None and stores_tombstone(bare))
        )
        if retention is not None:
            time = time_of(stored_key, timestamp)
            latest = result.stream_time
            if time > reached:
                result.ahead = min(result.ahead, time)
            elif latest is None or time > latest:
                result.stream_time = time
            if time < kind.horizon(view, result.stream_time):
                # late: it had expired before it arrived
                if not has_versions:
                    delete(stored_key)
                continue
            if stays or time > reached:  # the latter: stream time will move there later
                put(expiry.note(time, stored_key), b"")
        if value is not None:
            entry = entry_head(timestamp, offset)
            put(stored_key, entry + value if keeps_value else entry)
        elif stays:
            put(stored_key, deleted_entry(timestamp, offset))
        else:
            delete(stored_key)
    return result


def _build_custom(batch: RecordBatch, view: View, records: Sequence[Record]) -> BatchResult:
    """For a custom store: the valid records themselves."""
    result = BatchResult([], [], None)
    for key, _, value, timestamp, offset in _valid_records(view, records, result):
        batch.apply(key, value, timestamp, offset)
        result.keys.append(key)
    return result


def _valid_records(
    view: View, records: Sequence[Record], result: BatchResult
) -> Iterator[tuple[bytes, bytes, bytes | None, int, int]]:
    """Yield (bare key, stored key, value, timestamp in ms, offset) of each valid record.

    Dead letters are added to `result`. A schema that is not available yet is set there, and ends
    the iteration.
    """
    probe_key, probe_value = view.key_codec.probe, view.value_codec.probe
    layout = view.layout
    for record in records:
        key, value = record.key(), record.value()
        if key is None:
            result.dead.append(DeadLetter(record, _NO_KEY))
            continue
        timestamp = record.timestamp()[1]
        bare = layout.bare_key(key)
        try:
            probe_key(bare)
            stored_key = layout.stored_key(key, timestamp)
            if value is not None:
                probe_value(value)
        except ValueError:
            result.dead.append(DeadLetter(record, _error_of(view, key, bare, value)))
            continue
        except SchemaNotYet as not_yet:
            result.waiting = not_yet
            return
        yield bare, stored_key, value, timestamp, record.offset()


def _from_position(records: Sequence[Record], position: int) -> Sequence[Record]:
    """The records from `position` on; earlier ones were fetched for another view of the topic."""
    if not records or records[0].offset() >= position:
        return records
    return records[bisect_left(records, position, key=lambda record: record.offset()) :]


def _error_of(view: View, key: bytes, bare: bytes, value: bytes | None) -> str:
    try:
        view.key_codec.check(bare)
        view.layout.stored_key(key, 0)
    except ValueError as e:
        return f"key: {e}"
    try:
        view.value_codec.check(value or b"")
    except ValueError as e:
        return f"value: {e}"
    raise AssertionError(f"{view.key} key or {view.value} value: probe and check differ")


def count_mispartitioned(
    view: View, keys: Sequence[bytes], partition: int, counts: Sequence[int]
) -> int:
    """The number of keys that belong to another partition, under each of the partition counts.

    After partitions were added, a record is in its place if one of the counts puts it here.
    """
    if not keys or view.partitioner == ANY_PARTITION:
        return 0
    mispartitioned = np.ones(len(keys), dtype=bool)
    for count in counts:
        mispartitioned &= partitions_of_batch(view.partitioner, keys, count) != partition
        if not mispartitioned.any():
            return 0
    return int(mispartitioned.sum())
