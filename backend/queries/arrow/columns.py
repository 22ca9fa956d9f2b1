"""The columns of a view's rows, and their values.

`key`; `start`, `end` and `sequence` of windows and sessions; `record_timestamp` if it is asked for;
the fields that `select` names, or else those that the view declares; and `unreadable`, the reason
why the value of a row cannot be read. A view without declared fields has the column `value`.

A field has its declared type. Without one, it is its JSON text, as are keys and values that are
documents. As in conditions, a value that is not of the declared type is null.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, cast

import pyarrow as pa

from backend.queries.filters.columns import Columns
from backend.queries.filters.names import (
    KEY,
    OF_ENTRIES,
    ROW,
    TIME_OF_RECORD,
    TIMESTAMP_NAME,
    Names,
    path_of_value,
    text_of,
    times_of,
)
from backend.queries.filters.selection import MAX_SELECTED, split_names
from model.expressions.evaluator import Evaluate, compile_expression
from model.expressions.tree import Field
from model.expressions.types import MAX_DIGITS, Kind, Type
from model.formats.codec import Codec
from model.formats.json_decoder import decode_json
from model.formats.registry import FORMATS
from model.kinds.layout import EntryKey
from model.records import ENTRY_HEAD_SIZE, is_unreadable
from model.rows.documents import Documents
from model.rows.json_members import members
from model.rows.row_view import Pair
from model.rows.unreadable import settle_now
from model.views import View

NAME = b"queryable.name"
"""The metadata of a column: its name in `select` and `where`."""
JSON_TEXT = b"queryable.json"
"""The metadata of a column whose values `where` does not compare as Arrow does."""
UNREADABLE = "unreadable"
VALUE = "value"
SEQUENCE = "sequence"
_RESERVED = OF_ENTRIES | {UNREADABLE, VALUE, SEQUENCE}
_TIME = pa.timestamp("ms", "UTC")
_TYPES = {
    Kind.STRING: pa.string(),
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TIME: pa.timestamp("us", "UTC"),
    Kind.STRINGS: pa.list_(pa.string()),
    Kind.LONGS: pa.list_(pa.int64()),
    Kind.MAP: pa.map_(pa.string(), pa.string()),
}
_NO_TEXT = "a text with half of a surrogate pair has no form in UTF-8"


class _Chunk:
    """Some entries, and their parts. `values`: record values; None for those that cannot be read.
    `reasons`: why they cannot be read, or why a field of theirs is missing; None for most."""

    def __init__(self, view: View, columns: Columns, pairs: Sequence[Pair]) -> None:
        self.reasons: list[str | None] = [None] * len(pairs)
        self.values: list[bytes | None] = []
        self._columns, self._view, self._pairs = columns, view, pairs
        for number, (_, stored) in enumerate(pairs):
            if is_unreadable(stored):
                settled = settle_now(view, stored)
                if not isinstance(settled, bytes):
                    self.reasons[number] = settled.reason
                    self.values.append(None)
                    continue
                stored = settled
            self.values.append(stored[ENTRY_HEAD_SIZE:])

    def part(self, variable: str) -> list[Any]:
        """A part of each entry, as `Columns.read` gives it."""
        return self._columns.read(variable, self._pairs)

    @cached_property
    def documents(self) -> list[Any]:
        """The values as Python values."""
        return _readable(Documents(self._view).parse, self.values)

    @cached_property
    def entry_keys(self) -> list[EntryKey]:
        kind, view = self._view.kind, self._view
        return [kind.row_key(view, key, False) for key, _ in self._pairs]


_Read = Callable[[_Chunk], list[Any]]
_ReadBytes = Callable[[list[bytes]], list[Any]]


class _Column(NamedTuple):
    """`meant`: its name in `select` and conditions; None: it has none. `is_json`: its values are
    JSON texts, or conditions compare them in another way."""

    name: str
    type: pa.DataType
    read: _Read
    meant: str | None
    is_json: bool = False


class ArrowColumns:
    """Makes record batches of the entries of a view, with `schema`. `digest`: of the schema."""

    def __init__(self, view: View, select: str | None, timestamps: bool) -> None:
        """`select`: names of fields, separated by commas. `timestamps`: whether there is a column
        `record_timestamp`. Raises ValueError."""
        self._view = view
        self._names = Names(view)
        self._parts = Columns(view)
        type_, read = _whole(view.key, view.key_codec)
        numbers = [_Column(SEQUENCE, pa.int32(), _sequences, None)] if _has_sequences(view) else []
        stamp = _Column(TIMESTAMP_NAME, _TIME, _part(TIME_OF_RECORD), TIMESTAMP_NAME)
        self._columns = [
            _Column(
                KEY,
                type_,
                lambda chunk: read([entry.key for entry in chunk.entry_keys]),
                KEY,
                is_json=self._names[KEY].type.kind is Kind.JSON,
            ),
            *(_Column(name, _TIME, _part(name), name) for name in times_of(view)),
            *numbers,
            *([stamp] if timestamps else []),
            *self._value_columns(select),
        ]
        fields = [
            pa.field(column.name, column.type, metadata=_metadata(column))
            for column in self._columns
        ]
        self.schema = pa.schema([*fields, pa.field(UNREADABLE, pa.string())])
        self.digest = sha256(str(self.schema).encode()).hexdigest()[:32]
        self.has_timestamps = timestamps

    def batch(self, pairs: Sequence[Pair]) -> pa.RecordBatch:
        """The rows of entries, none of which is a tombstone."""
        chunk = _Chunk(self._view, self._parts, pairs)
        arrays = [_array(column, column.read(chunk), chunk.reasons) for column in self._columns]
        arrays.append(pa.array(chunk.reasons, pa.string()))
        return pa.record_batch(arrays, schema=self.schema)

    def _value_columns(self, select: str | None) -> list[_Column]:
        view = self._view
        if not view.value_codec.stores_values:
            return []
        if select is None and not view.fields:
            type_, read = _whole(view.value, view.value_codec)
            return [_Column(VALUE, type_, lambda chunk: _readable(read, chunk.values), None)]
        if select is None:
            paths = [field.path for field in view.fields]
        else:
            paths = [path_of_value(name) for name in split_names(select)]
            if not 1 <= len(paths) <= MAX_SELECTED:
                raise ValueError(f"it has {len(paths)} names; 1 to {MAX_SELECTED} are allowed")
            if len(set(paths)) < len(paths):
                raise ValueError("a name is in it twice")
        if not view.value_codec.is_document:
            raise ValueError(f"it names fields, and {view.value} values have none")
        return [self._field_column(path) for path in paths]

    def _field_column(self, path: tuple[str, ...]) -> _Column:
        name, meant = ".".join(path), text_of(path)
        if name in _RESERVED or path[0] in _RESERVED:
            name, meant = f"{VALUE}.{name}", text_of((VALUE, *path))
        field = self._names[text_of((VALUE, *path))]
        assert isinstance(field, Field)
        type_ = _arrow_type(field.type)
        if type_ is None:
            to_json = self._view.value_codec.to_json
            return _Column(
                name,
                pa.string(),
                lambda chunk: [_member(to_json, path, value) for value in chunk.values],
                meant,
                is_json=True,
            )
        evaluate = compile_expression(field, self._names.places, [ROW])
        return _Column(name, type_, _evaluated(evaluate, field.type.kind), meant)


def _metadata(column: _Column) -> dict[bytes, bytes] | None:
    if column.meant is None:
        return None
    return {NAME: column.meant.encode(), **({JSON_TEXT: b"true"} if column.is_json else {})}


def _has_sequences(view: View) -> bool:
    return view.kind.resource == "windows"


def _sequences(chunk: _Chunk) -> list[int]:
    return [entry.sequence for entry in chunk.entry_keys]


def _part(variable: str) -> _Read:
    return lambda chunk: chunk.part(variable)


def _evaluated(evaluate: Evaluate, kind: Kind) -> _Read:
    if kind is not Kind.MAP:
        return lambda chunk: list(map(evaluate, chunk.documents))
    return lambda chunk: [
        list(value.items()) if isinstance(value, dict) else None
        for value in map(evaluate, chunk.documents)
    ]


def _arrow_type(type_: Type) -> pa.DataType | None:
    """None: its values are JSON texts."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(MAX_DIGITS, type_.scale)
    if type_.kind is Kind.INTEGER and type_.bits == 32:
        return pa.int32()
    return _TYPES.get(type_.kind)


def _whole(format_name: str, codec: Codec) -> tuple[pa.DataType, _ReadBytes]:
    """The type of keys or values of a format, and how they are read from record bytes."""

    def parsed(raws: list[bytes]) -> list[Any]:
        return [decode_json(codec.to_json(raw)) for raw in raws]

    format_ = FORMATS.get(format_name)
    types = () if format_ is None else format_.python.types
    if bytes in types:
        return pa.binary(), list
    if codec.is_text:
        return pa.string(), lambda raws: list(map(bytes.decode, raws))
    if codec.is_number and float in types:  # "NaN" is a text in JSON
        return pa.float64(), lambda raws: list(map(float, parsed(raws)))
    if codec.is_number and int in types:
        return pa.int64(), parsed
    if format_ is not None and not codec.is_document:  # a UUID
        return pa.string(), parsed
    return pa.string(), lambda raws: [codec.to_json(raw).decode() for raw in raws]


def _readable(read: _ReadBytes, values: list[bytes | None]) -> list[Any]:
    found = iter(read([value for value in values if value is not None]))
    return [None if value is None else next(found) for value in values]


def _member(
    to_json: Callable[[bytes], bytes], path: tuple[str, ...], value: bytes | None
) -> str | None:
    """The JSON text of a field; None if it is missing or null."""
    if value is None:
        return None
    text: bytes | None = to_json(value)
    for name in path:
        text = None if text is None else members(text).get(name)
    return None if text is None or text == b"null" else text.decode()


def _array(column: _Column, values: list[Any], reasons: list[str | None]) -> pa.Array:
    try:
        return pa.array(values, column.type)
    except UnicodeEncodeError:
        for number, value in enumerate(values):
            try:
                pa.array([value], column.type)
            except UnicodeEncodeError:
                values[number] = None
                reasons[number] = reasons[number] or f"{column.name}: {_NO_TEXT}"
        return pa.array(values, column.type)


@lru_cache(maxsize=64)
def _kept(
    view: View, _fields: str, _schemas: Hashable, select: str | None, timestamps: bool
) -> ArrowColumns:
    return ArrowColumns(view, select, timestamps)


def columns_of(view: View, select: str | None, timestamps: bool) -> ArrowColumns:
    """The columns, which are kept for further requests. Raises ValueError."""
    return _kept(view, view.fields_hash, cast(Hashable, view.schemas), select, timestamps)
