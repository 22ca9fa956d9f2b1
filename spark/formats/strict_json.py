"""Strict JSON: decodes record values into the fields of a schema, in Spark's workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from pyspark.sql import SparkSession
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

from model.expressions.values import double_of_number, text_of_scalar, time_of_number
from model.formats.json_text import parse_json_text
from model.times import MAX_LENGTH, NOT_A_TIME, parse_instant
from spark.formats.batches import Fields as Fields

# Without a bound, a record close to Kafka's limit could become one that Kafka rejects, and the job
# would fail after each restart.
MAX_JSON_BYTES = 100_000

_T = TypeVar("_T")

ANY = "any"
"""Instead of a unit: the field is a text, or a number or boolean that is read as text."""


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """JSON objects with the fields of ``columns``; see ``JsonDecoder``."""

    columns: StructType
    fits: ClassVar[bool] = True

    def bound(self, session: SparkSession) -> JsonFormat:
        return self

    def decoder(self) -> Callable[[bytes], Fields]:
        return fields_reader(self.columns)


def fields_reader(
    schema: StructType,
    units: Mapping[str, str] | None = None,
    paths: Mapping[str, Sequence[str]] | None = None,
) -> Callable[[bytes | None], Fields]:
    """A function from a value to its fields; ValueError with the reason if it is malformed.
    `units`: field name ► s, ms, us or ns, for a time that is a number, or ANY. `paths`: field name
    ► its path, for fields that are not members with their name."""
    units, paths = units or {}, paths or {}
    readers = [
        (
            f.name,
            f.nullable,
            _unit_reader(units[f.name]) if f.name in units else _READERS[type(f.dataType)],
        )
        for f in schema
    ]

    def read_fields(value: bytes | None) -> Fields:
        fields = {}
        record = _json_object(value)
        for name, nullable, read in readers:
            found = _at(record, paths[name]) if name in paths else record.get(name)
            if found is not None:
                found = read(name, found)
            elif not nullable:
                raise ValueError(f"{name}: missing")
            fields[name] = found
        return fields

    return read_fields


def _at(record: Any, path: Sequence[str]) -> Any:
    """The value at the end of a path; None if there is none."""
    for name in path:
        record = record.get(name) if type(record) is dict else None
    return record


def _json_object(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise ValueError("value: null")
    if len(value) > MAX_JSON_BYTES:
        raise ValueError(f"value: more than {MAX_JSON_BYTES} bytes")
    try:
        # an object is neither a number nor a text
        record = parse_json_text(value, b"{}")
    except ValueError as error:
        raise ValueError(f"value: {error}") from None
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
    return _named(name, double_of_number, found)


def _time(name: str, found: object) -> int:
    text = _string(name, found)
    # longer texts would fill the memory of the cache
    at = _instant(text) if len(text) <= MAX_LENGTH else NOT_A_TIME
    if type(at) is str:
        raise ValueError(f"{name}: {at}")
    return at  # type: ignore[return-value]


@lru_cache(100_000)
def _instant(text: str) -> int | str:
    """Microseconds since 1970, or the reason why the text is not a time."""
    try:
        return parse_instant(text)
    except ValueError as error:
        return str(error)


def _unit_reader(unit: str) -> Callable[[str, Any], Any]:
    """A function that reads a number of ``unit`` since 1970 as microseconds. If the unit is ANY, it
    reads a text, number or boolean as text."""
    read: Callable[[object], Any] = (
        text_of_scalar if unit == ANY else lambda found: time_of_number(found, unit)
    )
    return lambda name, found: _named(name, read, found)


def _named(name: str, read: Callable[[object], _T], found: object) -> _T:
    """Reads a field; the reason of a ValueError has its name."""
    try:
        return read(found)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


_READERS: dict[type[DataType], Callable[[str, Any], Any]] = {
    StringType: _string,
    BooleanType: _boolean,
    DoubleType: _double,
    IntegerType: _int32,
    LongType: _int64,
    TimestampType: _time,
}
"""By Spark type: the function that reads a JSON field. A time is microseconds since 1970."""
