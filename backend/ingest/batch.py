"""From consumed records to one batch of one store partition.

The hot loop of ingest: no record is copied but into the batch, none is logged, and what is checked
for all records at once is checked once (the partitioner, in NumPy).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from backend.ingest.protocols import Batch, RecordBatch
from model.formats.avro.codecs import SchemaNotYet
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
    """A record that is not of the view's formats, and why."""

    record: Record
    reason: str


@dataclass
class BatchResult:
    """What a run of records came to: the bare keys added, what was not, and the greatest time."""

    keys: list[bytes]
    dead: list[DeadLetter]
    stream_time: int | None  # ms; as it was where the view has no retention
    waiting: SchemaNotYet | None = None
    stopped: int = 0  # where `waiting`: which of the records given is the first that has to wait
    ahead: int = expiry.FOREVER  # ms: the least time that stream time may not move to yet


def build_batch(
    batch: Batch,
    view: View,
    records: Sequence[Record],
    position: int,
    stream_time: int | None = None,
    reached: int = expiry.FOREVER,
    kept: Callable[[bytes], bool] | None = None,
) -> BatchResult:
    """Add the records from `position` on to the batch.

    `reached` (ms): times beyond it do not move the stream time yet.

    A null value deletes; an undecodable record leaves the previous value as it is. One that cannot
    be decoded yet ends the run. `kept` tells of which keys a delete is an entry itself.
    """
    run = _from(records, position)
    if view.is_custom:
        filled = _fill_custom(cast(RecordBatch, batch), view, run)
    elif view.kind.one_entry_per_key and view.retention is None:
        filled = _fill_latest(batch, view, run, stream_time, kept)
    else:
        filled = _fill_timed(batch, view, run, stream_time, kept, reached)
    if filled.waiting is None:
        return filled
    # each record that was looked at is among the keys or the dead
    done = len(filled.keys) + len(filled.dead)
    filled.stopped = len(records) - len(run) + done
    return filled


def _fill_latest(
    batch: Batch,
    view: View,
    records: Sequence[Record],
    stream_time: int | None,
    kept: Callable[[bytes], bool] | None,
) -> BatchResult:
    """One entry a key, no time to look at: the loop that most records go through."""
    put, delete, head = batch.put, batch.delete, entry_head
    probe_key, probe_value = view.key_codec.probe, view.value_codec.probe
    keeps_value = view.value != "none"
    # a call of C where the bytes stay as they are
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
                if kept is not None and kept(key):
                    gone = deleted_entry(record.timestamp()[1], record.offset())
                    put(stored_key(key), gone)
                else:
                    delete(stored_key(key))
            else:
                probe_value(value)
                entry = head(record.timestamp()[1], record.offset())
                put(stored_key(key), entry + value if keeps_value else entry)
        except ValueError:
            dead.append(DeadLetter(record, _what_is_wrong(view, key, key, value)))
            continue
        except SchemaNotYet as not_yet:
            return BatchResult(keys, dead, stream_time, not_yet)
        keys.append(key)
    return BatchResult(keys, dead, stream_time)


def _fill_timed(
    batch: Batch,
    view: View,
    records: Sequence[Record],
    stream_time: int | None,
    kept: Callable[[bytes], bool] | None,
    reached: int,
) -> BatchResult:
    """Entries that have a time: windows, sessions, versions, and whatever has a retention."""
    put, delete = batch.put, batch.delete
    kind, retention = view.kind, view.retention
    keeps_value, has_versions, time_of = view.value != "none", kind.has_versions, kind.time_of
    filled = BatchResult([], [], stream_time)
    for bare, stored_key, value, timestamp, offset in _sound(view, records, filled):
        filled.keys.append(bare)
        stays = value is not None or has_versions or (kept is not None and kept(bare))
        if retention is not None:
            time = time_of(stored_key, timestamp)
            latest = filled.stream_time
            if time > reached:
                filled.ahead = min(filled.ahead, time)
            elif latest is None or time > latest:
                filled.stream_time = time
            if time < kind.horizon(view, filled.stream_time):
                # late: it had expired before it came
                if not has_versions:
                    delete(stored_key)
                continue
            if stays or time > reached:  # the latter: stream time moves there one day
                put(expiry.note(time, stored_key), b"")
        if value is not None:
            entry = entry_head(timestamp, offset)
            put(stored_key, entry + value if keeps_value else entry)
        elif stays:
            put(stored_key, deleted_entry(timestamp, offset))
        else:
            delete(stored_key)
    return filled


def _fill_custom(batch: RecordBatch, view: View, records: Sequence[Record]) -> BatchResult:
    """For a store of the user's own: the records themselves, if they are of the view's formats."""
    filled = BatchResult([], [], None)
    for key, _, value, timestamp, offset in _sound(view, records, filled):
        batch.apply(key, value, timestamp, offset)
        filled.keys.append(key)
    return filled


def _sound(
    view: View, records: Sequence[Record], filled: BatchResult
) -> Iterator[tuple[bytes, bytes, bytes | None, int, int]]:
    """Bare key, stored key, value, timestamp (ms) and offset of the records that are of the view's
    formats. The others are added to `filled`; a schema that is not there yet ends it, and is too.
    """
    probe_key, probe_value = view.key_codec.probe, view.value_codec.probe
    layout = view.layout
    for record in records:
        key, value = record.key(), record.value()
        if key is None:
            filled.dead.append(DeadLetter(record, _NO_KEY))
            continue
        timestamp = record.timestamp()[1]
        bare = layout.bare_key(key)
        try:
            probe_key(bare)
            stored_key = layout.stored_key(key, timestamp)
            if value is not None:
                probe_value(value)
        except ValueError:
            filled.dead.append(DeadLetter(record, _what_is_wrong(view, key, bare, value)))
            continue
        except SchemaNotYet as not_yet:
            filled.waiting = not_yet
            return
        yield bare, stored_key, value, timestamp, record.offset()


def _from(records: Sequence[Record], position: int) -> Sequence[Record]:
    """Those from `position` on; before it are what was fetched for another view of the topic."""
    if not records or records[0].offset() >= position:
        return records
    return records[bisect_left(records, position, key=lambda record: record.offset()) :]


def _what_is_wrong(view: View, key: bytes, bare: bytes, value: bytes | None) -> str:
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


def count_mis_partitioned(
    view: View, keys: Sequence[bytes], partition: int, counts: Sequence[int]
) -> int:
    """How many of the keys belong to another partition, under each of the partition counts.

    After partitions were added, a record is where it belongs if one of the counts puts it here.
    """
    if not keys or view.partitioner == ANY_PARTITION:
        return 0
    misplaced = np.ones(len(keys), dtype=bool)
    for count in counts:
        misplaced &= partitions_of_batch(view.partitioner, keys, count) != partition
        if not misplaced.any():
            return 0
    return int(misplaced.sum())
