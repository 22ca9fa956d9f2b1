"""Strict JSON: decodes record values into the fields of a schema, in Spark's workers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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

from model.formats.json_text import parse_json_text
from spark.formats.batches import Fields as Fields

# Without a bound, a record close to Kafka's limit could become one that Kafka rejects, and the job
# would fail after each restart.
MAX_JSON_BYTES = 100_000

_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(Z|[+-]((0[0-9]|1[0-7]):[0-5][0-9]|18:00))"
)
_LONGEST_TIME = len("2013-01-01T10:00:00+01:00")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """JSON objects with the fields of ``columns``; see ``JsonDecoder``."""

    columns: StructType
    fits: ClassVar[bool] = True

    def bound(self, session: SparkSession) -> JsonFormat:
        return self

    def decoder(self) -> Callable[[bytes], Fields]:
        return fields_reader(self.columns)


def fields_reader(schema: StructType) -> Callable[[bytes | None], Fields]:
    """A function of one value: its fields; ValueError with the reason if it is malformed."""
    readers = [(f.name, f.nullable, _READERS[type(f.dataType)]) for f in schema]

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
    microseconds = _microseconds(text) if len(text) <= _LONGEST_TIME else None
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


_READERS: dict[type[DataType], Callable[[str, Any], Any]] = {
    StringType: _string,
    BooleanType: _boolean,
    DoubleType: _double,
    IntegerType: _int32,
    LongType: _int64,
    TimestampType: _time,
}
"""By Spark type: the function that reads a JSON field. A time is microseconds since 1970."""
