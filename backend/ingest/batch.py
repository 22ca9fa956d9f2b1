"""Builds a write batch for one store partition from consumed records.

This is the hot loop of ingest. A record's bytes are copied only into the batch, and no record is
logged. NumPy checks the partitions of all records at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from backend.ingest.protocols import Changes, Record, RecordBatch
from backend.ingest.rows import rows_of
from model.dead_letters import headers_bytes
from model.formats.schemas import SchemaNotYet
from model.kafka.headers import headers_of
from model.kinds import expiry
from model.partitioner import puts_anywhere
from model.partitioner_numpy import partitions_of_batch
from model.records import ENTRY, entry_head, tombstone_entry, unreadable_entry
from model.views import ANY_PARTITION, View

VALUE_REASON = "value: "
"""The start of the reason why a value cannot be decoded."""

# After a record whose schema is missing, so many records are checked for further missing schemas,
# so that a view waits for all of them together
_MAX_AHEAD = 1000
_NO_KEY = "the record has no key"


@dataclass(frozen=True)
class DeadLetter:
    """A record that cannot be decoded in the view's formats, and the reason. `is_of_value`: whether
    its key can be decoded. `is_stored`: whether it became an unreadable entry."""

    record: Record
    reason: str
    is_of_value: bool = False
    is_stored: bool = False

    @cached_property
    def size(self) -> int:
        """Bytes of key, value, headers and reason."""
        record = self.record
        texts = len(record.key() or b"") + len(record.value() or b"") + len(self.reason)
        return texts + headers_bytes(headers_of(record) or ())


@dataclass
class BatchResult:
    """The result for a run of records: the bare keys added, dead letters, and the stream time."""

    keys: list[bytes]
    dead_letters: list[DeadLetter]
    stream_time: int | None  # ms; unchanged if the view has no retention
    missing_schema: SchemaNotYet | None = None
    stopped_at: int = 0  # if a schema is missing: index of the first record that needs it
    earliest_future_time: int = expiry.MAX_TIME  # ms: smallest time after `max_stream_time`
    rows: Sequence[Record] = ()  # the processed records, as the view has them
    stored_letters: int = 0  # so far, as counted by `_valid_records`


def build_batch(
    batch: Changes,
    view: View,
    records: Sequence[Record],
    stream_time: int | None = None,
    max_stream_time: int = expiry.MAX_TIME,
    stores_tombstone: Callable[[bytes], bool] | None = None,
) -> BatchResult:
    """Add the records, which begin at the position of the store or later, to the batch.

    A null value deletes the key. A record whose value cannot be decoded becomes an unreadable
    entry, or leaves the previous value in place (`View.keeps_unreadable`). A record whose key
    cannot be decoded changes nothing. A record whose schema is not available yet ends the run; the
    schemas of the next records are requested.

    `max_stream_time` (ms): later record times do not advance the stream time yet.
    `stores_tombstone(bare key)`: whether a tombstone of this key must be stored as an entry.
    """
    run = rows_of(view, records)
    rows = run.records
    if view.is_custom:
        result = _build_custom(cast(RecordBatch, batch), view, rows)
    elif view.kind.one_entry_per_key and view.retention is None:
        result = _build_latest(batch, view, rows, stream_time, stores_tombstone)
    else:
        result = _build_timed(batch, view, rows, stream_time, stores_tombstone, max_stream_time)
    result.rows = rows
    if result.missing_schema is not None:
        # each processed record has added a key, or a dead letter that is not stored, or both
        skipped = [letter for letter in result.dead_letters if not letter.is_stored]
        processed = len(result.keys) + len(skipped)
        result.rows, result.stopped_at = rows[:processed], run.index_of(processed)
    elif run.missing_schema is not None:
        result.missing_schema, result.stopped_at = run.missing_schema, run.stopped_at
    if result.missing_schema is not None:
        first = result.stopped_at + 1
        for record in records[first : first + _MAX_AHEAD]:
            _ask_for_schemas(view, record)
    return result


def _build_latest(
    batch: Changes,
    view: View,
    records: Sequence[Record],
    stream_time: int | None,
    stores_tombstone: Callable[[bytes], bool] | None,
    is_checked: bool = False,
) -> BatchResult:
    """Build the batch of a view with one entry per key and without retention. Most records pass
    this loop."""
    put, delete, head = batch.put, batch.delete, entry_head
    probe_key: Callable[[bytes], object] = _accept if is_checked else view.key_codec.probe
    probe_value: Callable[[bytes], object] = _accept if is_checked else view.value_codec.probe
    keeps_value = view.value_codec.stores_values
    # a C function, if the stored key is the record's key
    stored_key = ENTRY.__add__ if view.key_codec.keeps_bytes else view.layout.stored_key
    keys: list[bytes] = []
    dead_letters: list[DeadLetter] = []
    for record in records:
        key, value = record.key(), record.value()
        if key is None:
            dead_letters.append(DeadLetter(record, _NO_KEY))
            continue
        try:
            probe_key(key)
            if value is None:
                if stores_tombstone is not None and stores_tombstone(key):
                    tombstone = tombstone_entry(record.timestamp()[1], record.offset())
                    put(stored_key(key), tombstone)
                else:
                    delete(stored_key(key))
            else:
                probe_value(value)
                entry = head(record.timestamp()[1], record.offset())
                put(stored_key(key), entry + value if keeps_value else entry)
        except ValueError:
            try:
                letter = _dead_letter(view, record, key)
            except SchemaNotYet as missing:  # the cache has dropped the schema since the probe
                return BatchResult(keys, dead_letters, stream_time, missing)
            if letter is None:
                # the probe is faster than the check, and stricter
                _build_latest(batch, view, [record], stream_time, stores_tombstone, is_checked=True)
            else:
                dead_letters.append(letter)
                if not letter.is_stored:
                    continue
                entry = unreadable_entry(record.timestamp()[1], record.offset(), value or b"")
                put(stored_key(key), entry)
        except SchemaNotYet as missing:
            return BatchResult(keys, dead_letters, stream_time, missing)
        keys.append(key)
    return BatchResult(keys, dead_letters, stream_time)


def _build_timed(
    batch: Changes,
    view: View,
    records: Sequence[Record],
    stream_time: int | None,
    stores_tombstone: Callable[[bytes], bool] | None,
    max_stream_time: int,
) -> BatchResult:
    """Build the batch of a view with windows, sessions or versions, or with a retention."""
    put, delete = batch.put, batch.delete
    kind, retention = view.kind, view.retention
    keeps_value = view.value_codec.stores_values
    has_versions, time_of = kind.has_versions, kind.time_of
    result = BatchResult([], [], stream_time)
    stored_before = 0
    for bare, stored_key, value, timestamp, offset in _valid_records(view, records, result):
        result.keys.append(bare)
        is_readable = result.stored_letters == stored_before
        stored_before = result.stored_letters
        is_stored = (
            value is not None
            or has_versions
            or (stores_tombstone is not None and stores_tombstone(bare))
        )
        if retention is not None:
            time = time_of(stored_key, timestamp)
            latest = result.stream_time
            if time > max_stream_time:
                result.earliest_future_time = min(result.earliest_future_time, time)
            elif latest is None or time > latest:
                result.stream_time = time
            if time < kind.horizon(view, result.stream_time):
                # a late record, whose entry has expired already
                if not has_versions:
                    delete(stored_key)
                continue
            # `advance` needs the index keys of future times, also of tombstones
            if is_stored or time > max_stream_time:
                put(expiry.index_key(time, stored_key), b"")
        if value is not None and not is_readable:
            put(stored_key, unreadable_entry(timestamp, offset, value))
        elif value is not None:
            entry = entry_head(timestamp, offset)
            put(stored_key, entry + value if keeps_value else entry)
        elif is_stored:
            put(stored_key, tombstone_entry(timestamp, offset))
        else:
            delete(stored_key)
    return result


def _build_custom(batch: RecordBatch, view: View, records: Sequence[Record]) -> BatchResult:
    """Build the batch of a custom store, which gets the valid records themselves."""
    result = BatchResult([], [], None)
    for key, _, value, timestamp, offset in _valid_records(view, records, result):
        batch.apply(key, value, timestamp, offset)
        result.keys.append(key)
    return result


def _valid_records(
    view: View, records: Sequence[Record], result: BatchResult
) -> Iterator[tuple[bytes, bytes, bytes | None, int, int]]:
    """Yield (bare key, stored key, value, timestamp in ms, offset) of each record to store.

    Adds dead letters to `result`, and counts those that are stored. A schema that is not available
    yet ends the iteration and is set in `result`.
    """
    probe_key, probe_value = view.key_codec.probe, view.value_codec.probe
    layout = view.layout
    for record in records:
        key, value = record.key(), record.value()
        if key is None:
            result.dead_letters.append(DeadLetter(record, _NO_KEY))
            continue
        timestamp = record.timestamp()[1]
        bare = layout.bare_key(key)
        try:
            probe_key(bare)
            stored_key = layout.stored_key(key, timestamp)
            if value is not None:
                probe_value(value)
        except ValueError:
            try:
                letter = _dead_letter(view, record, bare)
            except SchemaNotYet as missing:
                result.missing_schema = missing
                return
            if letter is not None:
                result.dead_letters.append(letter)
                if not letter.is_stored:
                    continue
                result.stored_letters += 1
            stored_key = layout.stored_key(key, timestamp)
        except SchemaNotYet as missing:
            result.missing_schema = missing
            return
        yield bare, stored_key, value, timestamp, record.offset()


def _ask_for_schemas(view: View, record: Record) -> None:
    """Request the schemas that a later record needs, so that the view waits for all missing schemas
    at the same time."""
    for row in rows_of(view, [record]).records:
        key, value = row.key(), row.value()
        if key is not None:
            with suppress(ValueError, SchemaNotYet):
                view.key_codec.probe(view.layout.bare_key(key))
        if value is not None:
            with suppress(ValueError, SchemaNotYet):
                view.value_codec.probe(value)


def from_offset(records: Sequence[Record], offset: int) -> Sequence[Record]:
    """The records from `offset` on."""
    if not records or records[0].offset() >= offset:
        return records
    return records[bisect_left(records, offset, key=lambda record: record.offset()) :]


def _dead_letter(view: View, record: Record, bare: bytes) -> DeadLetter | None:
    """The dead letter of a record with a key; None if the record is valid. `bare`: the key without
    a time."""
    try:
        view.key_codec.check(bare)
        view.layout.stored_key(cast(bytes, record.key()), record.timestamp()[1])
    except ValueError as e:
        return DeadLetter(record, f"key: {e}")
    value = record.value()
    try:
        if value is not None:
            view.value_codec.check(value)
    except ValueError as e:
        return DeadLetter(
            record, VALUE_REASON + str(e), is_of_value=True, is_stored=view.keeps_unreadable
        )
    return None


def _accept(raw: bytes) -> None:
    """The probe of a record that has been checked."""


def count_mispartitioned(
    view: View, keys: Sequence[bytes], partition: int, counts: Sequence[int]
) -> int:
    """The number of keys that belong to another partition, under each of the partition counts.

    After partitions were added, a record is mispartitioned only if no count maps it to
    `partition`. The empty key may be in any partition (`puts_anywhere`).
    """
    if puts_anywhere(view.partitioner, b""):
        keys = list(filter(None, keys))
    if not keys or view.partitioner == ANY_PARTITION:
        return 0
    mispartitioned = np.ones(len(keys), dtype=bool)
    for count in counts:
        mispartitioned &= partitions_of_batch(view.partitioner, keys, count) != partition
        if not mispartitioned.any():
            return 0
    return int(mispartitioned.sum())
