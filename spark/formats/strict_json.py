"""Strict JSON: decodes record values into the fields of a schema, in Spark's workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

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

from model.expressions.types import TIME
from model.formats.json_text import parse_json_text
from model.times import MAX_LENGTH, NOT_A_TIME, parse_instant
from spark.formats.batches import Fields as Fields

# Without a bound, a record close to Kafka's limit could become one that Kafka rejects, and the job
# would fail after each restart.
MAX_JSON_BYTES = 100_000

ANY = "any"
"""Instead of a unit: the field is a text, or a number or boolean that is read as text."""

# of the years 1 to 9999, in µs since 1970; in UTC, a day more
_FIRST_TIME, _LAST_TIME = TIME.low * 1_000_000, TIME.high * 1_000_000 + 999_999
_PER_UNIT = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 0.001}
"""µs in a unit."""


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
    # a number beyond the range of a double has become an object
    if type(found) is not float and type(found) is not int:
        raise ValueError(f"{name}: not a number")
    return float(found) + 0.0  # -0.0 and 0.0 are equal, so one of them would be chosen by chance


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
    return _scalar if unit == ANY else _number_reader(unit)


def _scalar(name: str, found: object) -> str:
    """A text; a number or a boolean as JSON."""
    if type(found) is str:
        return found
    # a number beyond the range of a double has become an object
    if not isinstance(found, int | float):
        raise ValueError(f"{name}: not a text, a number or a boolean")
    return json.dumps(found)


def _number_reader(unit: str) -> Callable[[str, object], int]:
    """A function that reads a number of ``unit`` since 1970 as microseconds."""
    per_unit = _PER_UNIT[unit]

    def read(name: str, found: object) -> int:
        if type(found) is int:
            at: float = found // 1000 if unit == "ns" else found * int(per_unit)
        elif type(found) is float:
            at = found * per_unit
        else:
            raise ValueError(f"{name}: not a number")
        if not _FIRST_TIME <= at <= _LAST_TIME:
            raise ValueError(f"{name}: not within the years 1 to 9999 as {unit} since 1970")
        return round(at)

    return read


_READERS: dict[type[DataType], Callable[[str, Any], Any]] = {
    StringType: _string,
    BooleanType: _boolean,
    DoubleType: _double,
    IntegerType: _int32,
    LongType: _int64,
    TimestampType: _time,
}
"""By Spark type: the function that reads a JSON field. A time is microseconds since 1970."""
