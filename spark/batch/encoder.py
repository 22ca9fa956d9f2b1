"""Rows of a DataFrame ► entries as instances store them.

The columns are `key`, `value` and, optionally, `timestamp` (ms, or a Spark timestamp). Binary
columns have the bytes of Kafka records. All other types are encoded in the view's formats: a string
as text, a number as a number, and a struct, map or array as a JSON document. Without a column
`value`, all columns but `key` and `timestamp` become one JSON document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from model.formats.codec import Codec
from model.formats.format import PythonForm
from model.formats.registry import format_of
from model.kinds.expiry import index_key
from model.partitioner_numpy import partitions_of_batch
from model.records import ENTRY, entry_head, pushed_offset, tombstone_entry
from model.views import View

_TEXT = PythonForm(types=(str,), to_text=str.encode)  # of a column of strings

KEY, VALUE, TIMESTAMP = "key", "value", "timestamp"


class RowError(ValueError):
    """A row cannot be an entry of the view. The job fails, and nothing is published."""


@dataclass
class Entries:
    """Entries of one partition, unsorted: stored keys and stored values. `index`: the keys of the
    expiry index."""

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    index: list[bytes] = field(default_factory=list)


class Encoder:
    """Encodes the rows of a push."""

    def __init__(self, view: View, partitions: int, push: str, timestamp: int) -> None:
        """`partitions`: their number in the view's topic. `timestamp` (ms): for rows without
        one."""
        self._view = view
        self._partitions = partitions
        self._offset = pushed_offset(push)
        self._timestamp = timestamp

    def encode(self, batch: pa.RecordBatch) -> dict[int, Entries]:
        """The entries of a batch, by partition. Raises RowError."""
        view = self._view
        keys = self._record_keys(batch)
        values = self._values(batch)
        times = self._times(batch)
        bare_keys, stored_keys = self._keys(keys, times)
        stored_values = self._stored_values(keys, values, times)
        partitions = partitions_of_batch(view.partitioner, bare_keys, self._partitions)
        if None in stored_values:
            # a row without a value means that the key has no entry
            present = [value is not None for value in stored_values]
            stored_keys = list(compress(stored_keys, present))
            stored_values = list(compress(stored_values, present))
            times = None if times is None else list(compress(times, present))
            partitions = partitions[np.asarray(present)]
        return self._by_partition(partitions, stored_keys, stored_values, times)

    def partitions(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """The partition of each row. Raises RowError."""
        keys = self._record_keys(batch)
        if self._view.kind.one_entry_per_key:
            bare_keys = keys
        else:
            bare_keys = list(map(self._view.layout.bare_key, keys))
        return partitions_of_batch(self._view.partitioner, bare_keys, self._partitions)

    def _record_keys(self, batch: pa.RecordBatch) -> list[Any]:
        keys = self._column(batch, KEY, self._view.key, self._view.key_codec)
        if None in keys:
            raise RowError("a row has no key: filter such rows, or give them a key")
        return keys

    def _column(
        self, batch: pa.RecordBatch, name: str, format_name: str, codec: Codec
    ) -> list[bytes | None]:
        """The record bytes of a column, without validation."""
        if name not in batch.schema.names:
            raise RowError(f"the DataFrame has no column {name}: {', '.join(batch.schema.names)}")
        column = batch.column(name)
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if is_text and (codec.is_text or codec.is_json):
            column = column.cast(pa.large_binary())
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            return column.to_pylist()  # type: ignore[no-any-return]
        form = _TEXT if is_text else format_of(format_name).python
        return _encoded(name, column.to_pylist(maps_as_pydicts="strict"), codec, form)

    def _values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        view = self._view
        if VALUE in batch.schema.names or not view.value_codec.is_json:
            return self._column(batch, VALUE, view.value, view.value_codec)
        fields = [name for name in batch.schema.names if name not in (KEY, TIMESTAMP)]
        rows = batch.select(fields).to_pylist(maps_as_pydicts="strict")
        return _encoded(VALUE, rows, view.value_codec, format_of(view.value).python)

    def _times(self, batch: pa.RecordBatch) -> list[int] | None:
        """The timestamps in ms; None if all are the default."""
        if TIMESTAMP not in batch.schema.names:
            return None
        column = batch.column(TIMESTAMP)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        elif not pa.types.is_integer(column.type):
            raise RowError(f"the column {TIMESTAMP} is {column.type}: it must be a time or ms")
        return pc.fill_null(column, self._timestamp).to_pylist()  # type: ignore[no-any-return]

    def _keys(
        self, keys: list[Any], times: Sequence[int] | None
    ) -> tuple[list[bytes], list[bytes]]:
        """Bare keys and stored keys. Raises RowError for an invalid key."""
        view = self._view
        layout, verify = view.layout, view.key_codec.verify
        key = b""
        try:
            if view.kind.one_entry_per_key:
                for key in keys:
                    verify(key)
                if view.key_codec.keeps_bytes:
                    return keys, list(map(ENTRY.__add__, keys))
                return keys, list(map(layout.stored_key, keys))
            bare_keys, stored_keys = [], []
            all_times = [self._timestamp] * len(keys) if times is None else times
            for key, time in zip(keys, all_times, strict=True):
                bare = layout.bare_key(key)
                verify(bare)
                bare_keys.append(bare)
                stored_keys.append(layout.stored_key(key, time))
        except ValueError as e:
            raise RowError(f"the key {key!r:.200} is not {view.key}: {e}") from None
        return bare_keys, stored_keys

    def _stored_values(
        self, keys: list[Any], values: list[bytes | None], times: Sequence[int] | None
    ) -> list[bytes | None]:
        """The stored bytes; None if there is no entry. Raises RowError for an invalid value."""
        view, offset = self._view, self._offset
        verify, keeps_value = view.value_codec.verify, view.value_codec.stores_values
        has_tombstones = view.kind.has_versions
        head = entry_head(self._timestamp, offset)
        tombstone = tombstone_entry(self._timestamp, offset)
        stored: list[bytes | None] = []
        number = 0
        try:
            for number, value in enumerate(values):
                if times is not None:
                    head = entry_head(times[number], offset)
                    tombstone = tombstone_entry(times[number], offset)
                if value is None:
                    stored.append(tombstone if has_tombstones else None)
                    continue
                verify(value)
                stored.append(head + value if keeps_value else head)
        except ValueError as e:
            raise RowError(
                f"the value of key {keys[number]!r:.200} is not {view.value}: {e}"
            ) from None
        return stored

    def _by_partition(
        self,
        partitions: NDArray[np.int64],
        keys: list[bytes],
        values: list[Any],
        times: Sequence[int] | None,
    ) -> dict[int, Entries]:
        by_partition: dict[int, Entries] = {}
        order = np.argsort(partitions, kind="stable")
        bounds = np.flatnonzero(np.diff(partitions[order])) + 1
        for rows in np.split(order, bounds):
            if not len(rows):
                continue
            numbers = rows.tolist()
            entries = Entries([keys[n] for n in numbers], [values[n] for n in numbers])
            if self._view.retention is not None:
                time_of = self._view.kind.time_of
                entries.index = [
                    index_key(time_of(keys[n], times[n] if times else self._timestamp), keys[n])
                    for n in numbers
                ]
            by_partition[int(partitions[numbers[0]])] = entries
        return by_partition


def _encoded(name: str, values: list[Any], codec: Codec, form: PythonForm) -> list[bytes | None]:
    """Python values as record bytes."""
    try:
        for value in values:
            if form.types and value is not None and not isinstance(value, form.types):
                raise ValueError(f"{value!r:.100} is of type {type(value).__name__}")
        return [None if value is None else _record_bytes(value, codec, form) for value in values]
    except (ValueError, TypeError) as e:
        raise RowError(f"the column {name} does not fit the format {codec.name}: {e}") from None


def _record_bytes(value: Any, codec: Codec, form: PythonForm) -> bytes:
    raw = codec.from_text(form.to_text(value))
    return codec.other_key(raw) or raw  # UUIDs in lower case, as Kafka's serializer writes them
