"""Decodes records in Python: functions of Arrow batches, which run in Spark's workers.

They need no session. Decoding never fails: a record that cannot be decoded gets a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from model.rows.json_fields import MAX_BYTES as MAX_BYTES
from model.rows.json_fields import Fields as Fields
from spark.event_time.bounds import EventTimeBounds, microseconds
from spark.formats.key_texts import KeyTexts

Validate = Callable[[Fields], str | None]
"""What is wrong with fields that have the right types, or None."""

FIELDS, REASON = "#fields", "#reason"  # not the names of fields
"""Columns of rows that ``judged`` returns."""

KEY_TEXT, KEY_REASON = "#key text", "#key reason"
"""Columns of rows that ``judged`` returns with ``Rules.key_texts``."""


class Format(Protocol):
    """How the bytes of keys or values become columns. Spark sends it to its workers."""

    @property
    def columns(self) -> StructType: ...

    @property
    def fits(self) -> bool:
        """Whether Arrow can convert all decoded fields to the columns."""

    def bound(self, session: SparkSession) -> Format:
        """The format with what it needs from the session's settings."""

    def decoder(self) -> Callable[[bytes], Fields]:
        """A function from bytes to fields. Raises ValueError with the reason."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a decoder demands of a record. Spark sends it to its workers.

    ``key``: the format of keys, if they are decoded; their fields follow those of the value.
    ``is_table``: every record needs a key, and null values are tombstones, whose fields are null.
    ``max_bytes``: the greatest length of a value. ``max_key_bytes``: that of a key; None if the
    view does not have the keys. ``null``: why a null value is rejected, if it is not a tombstone.
    ``key_texts``: only for ``judged``.
    """

    value: Format
    key: Format | None = None
    validate: Validate | None = None
    event_time: EventTimeBounds | None = None
    is_table: bool = False
    max_bytes: int = 1 << 30
    max_key_bytes: int | None = None
    null: str = "value: null"
    key_texts: KeyTexts | None = None

    @property
    def columns(self) -> StructType:
        """The decoded columns."""
        fields = list(self.value.columns)
        if self.is_table:
            fields = [StructField(field.name, field.dataType) for field in fields]
        return StructType([*fields, *(() if self.key is None else self.key.columns)])


def well_formed(
    batches: Iterable[pa.RecordBatch], rules: Rules, copied: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Batches of records ► the fields of the well-formed ones.

    A batch has the column ``value``; also ``timestamp`` if there are bounds of the event time, and
    ``key`` if the view has the keys. ``copied``: columns of the batch that are copied, before the
    fields.
    """
    types = to_arrow_schema(rules.columns, timezone="UTC")
    decode = _decoder(rules)
    for batch in batches:
        # The garbage collector does not scan tuples of plain values.
        rows, positions = [], []
        for position, fields in enumerate(decode(batch)):
            if type(fields) is dict:
                rows.append(tuple(fields.values()))
                positions.append(position)
        try:
            columns = _columns(rows, types)
        except _NOT_CONVERTED:
            fitting = [at for at, row in enumerate(rows) if _misfit(row, types) is None]
            rows, positions = [rows[at] for at in fitting], [positions[at] for at in fitting]
            columns = _columns(rows, types)
        taken = pa.array(positions, pa.int32())
        before = [batch.column(name).take(taken) for name in copied]
        yield pa.RecordBatch.from_arrays([*before, *columns], names=[*copied, *types.names])


def malformed(batches: Iterable[pa.RecordBatch], rules: Rules) -> Iterator[pa.RecordBatch]:
    """Batches of records ► the malformed ones, with the ``reason``. The batches have the columns
    that ``well_formed`` needs."""
    types = to_arrow_schema(rules.columns, timezone="UTC")
    decode = _decoder(rules)
    fits = rules.value.fits and (rules.key is None or rules.key.fits)
    for batch in batches:
        reasons: dict[int, str] = {}
        rows: dict[int, tuple[Any, ...]] = {}
        for position, decoded in enumerate(decode(batch)):
            if isinstance(decoded, str):
                reasons[position] = decoded
            elif not fits:
                rows[position] = tuple(decoded.values())
        try:
            _columns(list(rows.values()), types)
        except _NOT_CONVERTED:
            misfits = {position: _misfit(row, types) for position, row in rows.items()}
            reasons |= {position: reason for position, reason in misfits.items() if reason}
            reasons = dict(sorted(reasons.items()))
        rejected = batch.take(pa.array(reasons, pa.int32()))
        yield rejected.append_column("reason", pa.array(reasons.values(), pa.string()))


def judged(
    batches: Iterable[pa.RecordBatch], rules: Rules, copied: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Batches of records ► all of them, for rules that need Spark's expressions as well: the
    columns ``copied``, then those of ``judged_columns``. The format must be one that ``fits``."""
    types = to_arrow_schema(rules.columns, timezone="UTC")
    decode = _decoder(rules)
    read_key = None if rules.key_texts is None else rules.key_texts.reader()
    nothing = (None,) * len(types)
    for batch in batches:
        rows: list[tuple[Any, ...]] = []
        reasons: list[str | None] = []
        for decoded in decode(batch):
            if isinstance(decoded, str):
                rows.append(nothing)
                reasons.append(decoded)
            else:
                rows.append(tuple(decoded.values()))
                reasons.append(None)
        fields = pa.StructArray.from_arrays(_columns(rows, types), types.names)
        columns = [batch.column(name) for name in copied]
        columns += [fields, pa.array(reasons, pa.string())]
        if read_key is not None:
            columns += _key_columns(batch.column("key"), read_key)
        yield pa.RecordBatch.from_arrays(
            columns, names=[*copied, *(field.name for field in judged_columns(rules))]
        )


def judged_columns(rules: Rules) -> list[StructField]:
    """``FIELDS``, a struct whose fields are null if the record is rejected, and ``REASON``. With
    ``key_texts`` also ``KEY_TEXT``, which is null if there is no key, or ``KEY_REASON`` why it is
    rejected."""
    columns = [StructField(FIELDS, rules.columns), StructField(REASON, StringType())]
    if rules.key_texts is not None:
        columns += [StructField(name, StringType()) for name in (KEY_TEXT, KEY_REASON)]
    return columns


def _key_columns(keys: pa.Array, read: Callable[[bytes], str]) -> list[pa.Array]:
    """``KEY_TEXT`` and ``KEY_REASON``."""
    texts: list[str | None] = []
    reasons: list[str | None] = []
    for key in keys.to_pylist():
        text = reason = None
        if key is not None:
            try:
                text = read(key)
            except ValueError as error:
                reason = f"key: {error}"
        texts.append(text)
        reasons.append(reason)
    return [pa.array(texts, pa.string()), pa.array(reasons, pa.string())]


def _decoder(rules: Rules) -> Callable[[pa.RecordBatch], Iterator[Fields | str]]:
    """A function of a batch: the fields of each row, or the reason why it is malformed."""
    decode_value = _value_decoder(rules)
    decode_key = None if rules.key is None else rules.key.decoder()
    bounds = rules.event_time
    needs_key = rules.is_table or decode_key is not None
    max_key_bytes = rules.max_key_bytes

    def checked(fields: Fields | str, timestamp: int) -> Fields | str:
        if bounds is None or isinstance(fields, str) or fields[bounds.field] is None:
            return fields
        time = fields[bounds.field]
        if isinstance(time, datetime):
            time = microseconds(time)
        return bounds.violation(time, timestamp) or fields

    def keyed(fields: Fields | str, key: bytes | None) -> Fields | str:
        if key is None:
            return "key: null" if needs_key else fields
        if isinstance(fields, str):
            return fields
        if max_key_bytes is not None and len(key) > max_key_bytes:
            return f"key: more than {max_key_bytes} bytes"
        try:
            return fields if decode_key is None else fields | decode_key(key)
        except ValueError as error:
            return f"key: {error}"

    def decode(batch: pa.RecordBatch) -> Iterator[Fields | str]:
        decoded: Iterator[Fields | str] = map(decode_value, batch.column("value").to_pylist())
        if bounds is not None:
            # Numbers, because a timestamp may be outside the range of Python's datetime.
            timestamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
            decoded = map(checked, decoded, timestamps)
        # Keys that are only copied do not become Python objects, unless one is too long.
        if needs_key or (
            max_key_bytes is not None and _longest(batch.column("key")) > max_key_bytes
        ):
            decoded = map(keyed, decoded, batch.column("key").to_pylist())
        return decoded

    return decode


def _longest(binary: pa.Array) -> int:
    """The number of bytes of the longest value."""
    return pc.max(pc.binary_length(binary)).as_py() or 0


def _value_decoder(rules: Rules) -> Callable[[bytes | None], Fields | str]:
    read, validate = rules.value.decoder(), rules.validate
    names, max_bytes, null = rules.value.columns.names, rules.max_bytes, rules.null

    def decode(value: bytes | None) -> Fields | str:
        if value is None:
            return dict.fromkeys(names) if rules.is_table else null
        if len(value) > max_bytes:
            return f"value: more than {max_bytes} bytes"
        try:
            fields = read(value)
        except ValueError as error:
            return str(error)
        return (None if validate is None else validate(fields)) or fields

    return decode


_NOT_CONVERTED = (pa.ArrowException, ValueError, TypeError, OverflowError)


def _columns(rows: Sequence[tuple[Any, ...]], types: pa.Schema) -> list[pa.Array]:
    values = zip(*rows, strict=True) if rows else [()] * len(types)
    return [pa.array(column, to) for column, to in zip(values, types.types, strict=True)]


def _misfit(row: tuple[Any, ...], types: pa.Schema) -> str | None:
    """Why a row cannot be converted, or None."""
    for value, column in zip(row, types, strict=True):
        try:
            pa.array([value], column.type)
        except _NOT_CONVERTED as error:
            return f"{column.name}: {error}"
    return None
