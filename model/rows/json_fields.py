"""Strict JSON: reads record values into declared fields.

``spark.realtime.json_values`` has the same rule without Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from model.expressions.types import AnyScalar, Kind, NumberTime, Type
from model.expressions.values import NOT_A_STRING, Read, strict_reader
from model.formats.json_decoder import decode_json, may_have_long_integers
from model.formats.json_text import parse_json_text
from model.times import MAX_LENGTH, NOT_A_TIME, parse_instant

Fields = dict[str, Any]
"""The fields of a record by name, in the order in which they are declared."""

# Without a bound, a record close to Kafka's limit could become one that Kafka rejects, and the job
# would fail after each restart. A few bytes can also be many Python objects.
MAX_BYTES = 100_000
"""The greatest length of a value, by default."""


class JsonField(NamedTuple):
    """A field to read, which may be null or missing if its type is optional. ``path``: names, if it
    is not the member with its name."""

    name: str
    type: Type
    path: Sequence[str] = ()


def fields_reader(fields: Sequence[JsonField]) -> Callable[[bytes], Fields]:
    """A function from a value to its fields. Raises ValueError with the reason if it is malformed.
    A time is microseconds since 1970."""
    readers = [
        (name, path, type_.optional, _KEPT.get(type_.kind), _reader(type_))
        for name, type_, path in fields
    ]

    def read_fields(value: bytes) -> Fields:
        record = _json_object(value)
        decoded = {}
        for name, path, is_optional, kept, read in readers:
            member = member_at(record, path) if path else record.get(name)
            # Most members are texts, which need no call.
            if type(member) is not kept:
                if member is not None:
                    try:
                        member = read(member)
                    except ValueError as error:
                        raise ValueError(f"{name}: {error}") from None
                elif not is_optional:
                    raise ValueError(f"{name}: missing")
            decoded[name] = member
        return decoded

    exact = [
        field
        for field in fields
        if isinstance(field.type, AnyScalar | NumberTime) or field.type.kind is Kind.MAP
    ]
    return _with_long_numbers(read_fields, exact) if exact else read_fields


def _with_long_numbers(
    read_fields: Callable[[bytes], Fields], exact: Sequence[JsonField]
) -> Callable[[bytes], Fields]:
    """As ``read_fields``, but whole numbers in the fields ``exact`` keep all their digits. orjson
    reads a number of more than 64 bits as a double, so two different ones would become the same
    text."""

    def read(value: bytes) -> Fields:
        decoded = read_fields(value)
        if may_have_long_integers(value):
            record = decode_json(value)
            for name, type_, path in exact:
                member = member_at(record, path or (name,))
                if type(member) is int or type(member) is dict:
                    try:
                        decoded[name] = strict_reader(type_)(member)
                    except ValueError as error:
                        raise ValueError(f"{name}: {error}") from None
        return decoded

    return read


_KEPT: dict[Kind, type] = {Kind.STRING: str, Kind.BOOLEAN: bool}
"""Kinds whose values are those of the JSON, and their Python type."""


def _reader(type_: Type) -> Read:
    is_text = type_.kind is Kind.TIME and not isinstance(type_, NumberTime)
    return _time if is_text else strict_reader(type_)


def _time(text: object) -> int:
    """As ``strict_reader`` of a time, with a cache: many records have the same time."""
    if type(text) is not str:
        raise ValueError(NOT_A_STRING)
    # longer texts would fill the memory of the cache
    at = _instant(text) if len(text) <= MAX_LENGTH else NOT_A_TIME
    if type(at) is str:
        raise ValueError(at)
    return at  # type: ignore[return-value]


@lru_cache(100_000)
def _instant(text: str) -> int | str:
    """Microseconds since 1970, or the reason why the text is not a time."""
    try:
        return parse_instant(text)
    except ValueError as error:
        return str(error)


def member_at(record: Any, path: Sequence[str]) -> Any:
    """The value at the end of a path; None if there is none."""
    for name in path:
        record = record.get(name) if type(record) is dict else None
    return record


def _json_object(value: bytes) -> dict[str, Any]:
    if len(value) > MAX_BYTES:
        raise ValueError(f"value: more than {MAX_BYTES} bytes")
    try:
        # an array fits no type of a field, and is not an object
        record = parse_json_text(value, b"[]")
    except ValueError as error:
        raise ValueError(f"value: {error}") from None
    if type(record) is not dict:
        raise ValueError("value: not a JSON object")
    return record
