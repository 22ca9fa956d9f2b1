"""Converts decoded JSON to values of a type, and back.

Types are dataclasses, pydantic models, msgspec structs, the types of the standard library below,
and lists, dicts and unions of these. Neither pydantic nor msgspec is imported here.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from queryable.client.protocol.errors import BadUse
from queryable.client.protocol.formats import Raw

Convert = Callable[[Any], Any]


class Mismatch(ValueError):
    """A value does not have the type. `path`: the path of the field, such as `.address.city`."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.path = path
        self.text = text


def reader_of(kind: Any) -> Convert:
    """A function that converts decoded JSON to a value of this type, or raises Mismatch. Raises
    BadUse if the type is not supported."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return lambda value: value
    if hasattr(kind, "model_validate"):  # pydantic's ValidationError is a ValueError
        return _model_reader(kind, kind.model_validate, ValueError)
    if hasattr(kind, "__struct_fields__") and isinstance(kind, type):
        msgspec = sys.modules["msgspec"]
        return _model_reader(kind, partial(msgspec.convert, type=kind), msgspec.ValidationError)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass_reader(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _parser(f"one of {', '.join(repr(item.value) for item in kind)}", kind)
    if origin is Literal:
        allowed = [(type(item), item) for item in arguments]
        name = f"one of {', '.join(map(repr, arguments))}"
        return _parser(name, lambda value: allowed[allowed.index((type(value), value))][1])
    if origin in (Union, UnionType):
        return _union_reader(kind, list(map(reader_of, arguments)))
    if origin is list:
        read_item, check = reader_of(arguments[0]), reader_of(list)
        return lambda value: [
            _read_at(f"[{n}]", read_item, item) for n, item in enumerate(check(value))
        ]
    if origin is dict and arguments[0] is str:
        read_item, check = reader_of(arguments[1]), reader_of(dict)
        return lambda value: {
            name: _read_at(f".{name}", read_item, item) for name, item in check(value).items()
        }
    if (parser := _PARSERS.get(NoneType if kind is None else kind)) is not None:
        return parser
    raise BadUse(f"{_name(kind)} is not a supported type: see docs/client.md.")


def _parser(name: str, parse: Convert, *accepted: type) -> Convert:
    """A reader that calls `parse`, which may raise ValueError or ArithmeticError. `accepted`: the
    types of decoded JSON that it reads; empty: all types."""

    def read(value: Any) -> Any:
        # not isinstance: bool is a subclass of int
        if not accepted or type(value) in accepted:
            with suppress(ValueError, ArithmeticError):
                return parse(value)
        raise Mismatch("", f"expected {name}, not {value!r}")

    return read


_PARSERS: Mapping[Any, Convert] = {
    NoneType: _parser("null", lambda value: value, NoneType),
    **{kind: _parser(kind.__name__, kind, kind) for kind in (str, int, bool, bytes, list, dict)},
    float: _parser("float", float, float, int),
    date: _parser("date as text", date.fromisoformat, str),
    datetime: _parser("datetime as text", datetime.fromisoformat, str),
    UUID: _parser("UUID as text", lambda value: UUID(str(value)), str, UUID),
    # a number that is not text is exact only if it is whole
    Decimal: _parser("Decimal as text", Decimal, str, int),
}


def _model_reader(kind: Any, validate: Convert, invalid: type[Exception]) -> Convert:
    def read(value: Any) -> Any:
        try:
            return validate(value)
        except invalid as error:
            text = "; ".join(line.strip() for line in str(error).splitlines()[:4])
            raise Mismatch("", f"not a valid {kind.__name__}: {text}") from None

    return read


def _dataclass_reader(kind: type) -> Convert:
    hints, fields = get_type_hints(kind), [f for f in dataclasses.fields(kind) if f.init]
    readers = {field.name: reader_of(hints[field.name]) for field in fields}
    required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    check = _parser(kind.__name__, dict, dict)

    def read(value: Any) -> Any:
        document = check(value)
        for name in required:
            if name not in document:
                raise Mismatch(f".{name}", "is missing")
        # fields that the class does not have are left out
        return kind(
            **{
                name: _read_at(f".{name}", reader, document[name])
                for name, reader in readers.items()
                if name in document
            }
        )

    return read


def _union_reader(kind: Any, readers: list[Convert]) -> Convert:
    """A reader of the first type that fits."""

    def read(value: Any) -> Any:
        deepest = Mismatch("", f"expected {_name(kind)}, not {value!r}")
        for reader in readers:
            try:
                return reader(value)
            except Mismatch as mismatch:
                if len(mismatch.path) > len(deepest.path):
                    deepest = mismatch
        raise deepest

    return read


def _read_at(path: str, read: Convert, value: Any) -> Any:
    try:
        return read(value)
    except Mismatch as mismatch:
        raise Mismatch(path + mismatch.path, mismatch.text) from None


def to_document(value: Any, is_nested: bool = False) -> Any:
    """A key or value as a document of the client: the reverse of `reader_of`. UUIDs in documents
    are text, while a UUID alone is a key."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, UUID):
        return str(value) if is_nested else value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__struct_fields__"):
        return sys.modules["msgspec"].to_builtins(value)
    if isinstance(value, Enum):
        return to_document(value.value, is_nested)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        value = {name: getattr(value, name) for name in names}
    if isinstance(value, list):
        return [to_document(item, is_nested=True) for item in value]
    if isinstance(value, dict):
        return {name: to_document(item, is_nested=True) for name, item in value.items()}
    return value


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_origin(kind) else str(kind)
