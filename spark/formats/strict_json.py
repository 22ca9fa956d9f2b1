"""Strict JSON: functions of Arrow batches that decode record values into the fields of a schema.

They run in Spark's Python workers and need no session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from spark.event_time.bounds import EventTimeBounds

# Without a bound, a record close to Kafka's limit could become one that Kafka rejects, and the job
# would fail after each restart.
MAX_JSON_BYTES = 100_000

_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(Z|[+-]((0[0-9]|1[0-7]):[0-5][0-9]|18:00))"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


Fields = dict[str, Any]
Validate = Callable[[Fields], str | None]
"""What is wrong with fields that have the right types, or None."""


def well_formed(
    batches: Iterable[pa.RecordBatch],
    schema: StructType,
    validate: Validate,
    event_time: EventTimeBounds | None = None,
    copied: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Batches with a binary ``value`` ► the fields of ``schema`` of all well-formed values.

    ``event_time`` needs the column ``timestamp``. ``copied``: columns of the batch that are copied,
    before the fields.
    """
    types = pa.schema([(field.name, _TYPES[type(field.dataType)][1]) for field in schema])
    names = [*copied, *types.names]
    decode = _decoder(schema, validate)
    for batch in batches:
        # The garbage collector does not scan tuples of plain values.
        rows, positions = [], []
        for row, fields in enumerate(_decoded(batch, decode, event_time)):
            if isinstance(fields, dict):
                rows.append(tuple(fields.values()))
                positions.append(row)
        values = zip(*rows, strict=True) if rows else [()] * len(types)
        columns = [pa.array(column, to) for column, to in zip(values, types.types, strict=True)]
        taken = pa.array(positions, pa.int32())
        before = [batch.column(name).take(taken) for name in copied]
        yield pa.RecordBatch.from_arrays([*before, *columns], names=names)


def malformed(
    batches: Iterable[pa.RecordBatch],
    schema: StructType,
    validate: Validate,
    event_time: EventTimeBounds | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches with a binary ``value`` ► the rows with malformed values, and the ``reason``."""
    decode = _decoder(schema, validate)
    for batch in batches:
        reasons = {}
        for row, decoded in enumerate(_decoded(batch, decode, event_time)):
            if isinstance(decoded, str):
                reasons[row] = decoded
        rejected = batch.take(pa.array(reasons, pa.int32()))
        yield rejected.append_column("reason", pa.array(reasons.values(), pa.string()))


def _decoded(
    batch: pa.RecordBatch,
    decode: Callable[[bytes | None], Fields | str],
    event_time: EventTimeBounds | None,
) -> Iterator[Fields | str]:
    """The fields of each row, or the reason why it is malformed."""
    decoded = map(decode, batch.column("value").to_pylist())
    if event_time is None:
        return decoded
    # Numbers, because a timestamp may be outside the range of Python's datetime.
    timestamps = batch.column("timestamp").cast(pa.int64()).to_pylist()

    def checked(fields: Fields | str, timestamp: int) -> Fields | str:
        if isinstance(fields, str):
            return fields
        return event_time.violation(fields[event_time.field], timestamp) or fields

    return map(checked, decoded, timestamps)


def _decoder(schema: StructType, validate: Validate) -> Callable[[bytes | None], Fields | str]:
    """A function of one value: its fields, or the reason why it is malformed."""
    read = fields_reader(schema)

    def decode(value: bytes | None) -> Fields | str:
        try:
            fields = read(value)
        except ValueError as error:
            return str(error)
        return validate(fields) or fields

    return decode


def fields_reader(schema: StructType) -> Callable[[bytes | None], Fields]:
    """A function of one value: its fields; ValueError with the reason if it is malformed."""
    readers = [(f.name, f.nullable, _TYPES[type(f.dataType)][0]) for f in schema]

    def read_fields(value: bytes | None) -> Fields:
        fields = {}
        record = _json_object(value)
        for name, nullable, read in readers:
            found = record.get(name)
            if found is not None:
                found = read(name, found)
            elif not nullable:
                raise ValueError(f"{name}: missing")
            fields[name] = found
        return fields

    return read_fields


def _json_object(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise ValueError("value: null")
    if len(value) > MAX_JSON_BYTES:
        raise ValueError(f"value: more than {MAX_JSON_BYTES} bytes")
    try:
        record = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        try:
            value.decode()
        except UnicodeDecodeError:
            raise ValueError("value: not UTF-8") from None
        raise ValueError(f"value: not JSON: {error}") from None
    if type(record) is not dict:
        raise ValueError("value: not a JSON object")
    return record


def _string(name: str, found: object) -> str:
    if type(found) is not str:
        raise ValueError(f"{name}: not a string")
    return found


def _int32(name: str, found: object) -> int:
    if type(found) is not int or not -(2**31) <= found < 2**31:
        raise ValueError(f"{name}: not a whole number of 32 bits")
    return found


def _int64(name: str, found: object) -> int:
    if type(found) is not int or not -(2**63) <= found < 2**63:
        raise ValueError(f"{name}: not a whole number of 64 bits")
    return found


def _boolean(name: str, found: object) -> bool:
    if type(found) is not bool:
        raise ValueError(f"{name}: not true or false")
    return found


def _double(name: str, found: object) -> float:
    if type(found) is not float and type(found) is not int:
        raise ValueError(f"{name}: not a number")
    return float(found) + 0.0  # -0.0 and 0.0 are equal, so one of them would be chosen by chance


def _time(name: str, found: object) -> int:
    microseconds = _microseconds(_string(name, found))
    if microseconds is None:
        raise ValueError(f"{name}: not a time like 2013-01-01T10:00:00Z")
    return microseconds


@lru_cache(100_000)
def _microseconds(text: str) -> int | None:
    """Microseconds since 1970; None if the text is not a time."""
    try:
        if _ISO.fullmatch(text):
            return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
    except ValueError:
        pass
    return None


_TYPES: dict[type[DataType], tuple[Callable[[str, Any], Any], pa.DataType]] = {
    StringType: (_string, pa.string()),
    BooleanType: (_boolean, pa.bool_()),
    DoubleType: (_double, pa.float64()),
    IntegerType: (_int32, pa.int32()),
    LongType: (_int64, pa.int64()),
    TimestampType: (_time, pa.timestamp("us", tz="UTC")),
}
"""By Spark type: the function that reads a JSON field, and the Arrow type of the column."""
