"""Converts decoded JSON to values of a type, and back.

Types are dataclasses, pydantic models, msgspec structs, the types of the standard library below,
and lists, dicts and unions of these. pydantic and msgspec are imported only if a type is theirs.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from importlib import import_module
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from queryable.client.protocol.errors import BadUse

Convert = Callable[[Any], Any]


class Mismatch(ValueError):
    """A value does not have the type. `path`: of the field, such as `.address.city`."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.path = path
        self.text = text


def reader_of(kind: Any) -> Convert:
    """A function that converts decoded JSON to a value of this type, or raises Mismatch. Raises
    BadUse if the type is not supported."""
    if kind is Any or kind is object:
        return lambda value: value
    if (of_library := _library_reader(kind)) is not None:
        return of_library
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass_reader(kind)
    if (origin := get_origin(kind)) is not None:
        return _generic_reader(kind, origin)
    if kind is None or kind is type(None):
        return _checked((type(None),), "null")
    if kind in _PARSED:
        return _parsed(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_reader(kind)
    if kind in _PLAIN:
        return _checked(_PLAIN[kind], kind.__name__, convert=kind if kind is float else None)
    raise BadUse(f"{_name(kind)} is not a supported type: see docs/client.md.")


_PLAIN: Mapping[Any, tuple[type, ...]] = {
    str: (str,), int: (int,), float: (int, float), bool: (bool,), bytes: (bytes,),
    list: (list,), dict: (dict,),
}  # fmt: skip
_PARSED: Mapping[Any, Convert] = {
    datetime: datetime.fromisoformat, date: date.fromisoformat, UUID: UUID, Decimal: Decimal,
}  # fmt: skip


def _checked(kinds: tuple[type, ...], name: str, convert: Convert | None = None) -> Convert:
    def read(value: Any) -> Any:
        # bool is a subclass of int
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Mismatch("", f"expected {name}, not {value!r}")
        return value if convert is None else convert(value)

    return read


def _parsed(kind: Any) -> Convert:
    parse = _PARSED[kind]

    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        try:
            # a number that is not text is exact only if it is whole
            if isinstance(value, str) or (kind is Decimal and type(value) is int):
                return parse(value)
        except (ValueError, InvalidOperation):
            pass
        raise Mismatch("", f"expected {kind.__name__} as text, not {value!r}")

    return read


def _enum_reader(kind: type[Enum]) -> Convert:
    def read(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(repr(each.value) for each in kind)
            raise Mismatch("", f"expected one of {known}, not {value!r}") from None

    return read


def _dataclass_reader(kind: type) -> Convert:
    hints = get_type_hints(kind)
    fields = [each for each in dataclasses.fields(kind) if each.init]
    readers = {each.name: reader_of(hints[each.name]) for each in fields}
    required = [
        each.name
        for each in fields
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    ]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch("", f"expected {kind.__name__}, not {value!r}")
        for name in required:
            if name not in value:
                raise Mismatch(f".{name}", "is missing")
        # fields that the class does not have are left out
        return kind(**{n: _at(f".{n}", readers[n], value[n]) for n in readers if n in value})

    return read


def _generic_reader(kind: Any, origin: Any) -> Convert:
    arguments = get_args(kind)
    if origin in (Union, types.UnionType):
        return _union_reader(kind, [reader_of(each) for each in arguments])
    if origin is Literal:
        return _literal_reader(arguments)
    if origin is list:
        [of] = map(reader_of, arguments)
        check_list = reader_of(list)
        return lambda value: [_at(f"[{n}]", of, e) for n, e in enumerate(check_list(value))]
    if origin is dict and arguments[0] is str:
        of = reader_of(arguments[1])
        check_dict = reader_of(dict)
        return lambda value: {n: _at(f".{n}", of, e) for n, e in check_dict(value).items()}
    raise BadUse(f"{_name(kind)} is not a supported type: see docs/client.md.")


def _union_reader(kind: Any, readers: list[Convert]) -> Convert:
    def read(value: Any) -> Any:
        deepest: Mismatch | None = None
        for each in readers:
            try:
                return each(value)
            except Mismatch as mismatch:
                if deepest is None or len(mismatch.path) > len(deepest.path):
                    deepest = mismatch
        if deepest is not None and deepest.path:
            raise deepest
        raise Mismatch("", f"expected {_name(kind)}, not {value!r}")

    return read


def _literal_reader(allowed: tuple[Any, ...]) -> Convert:
    def read(value: Any) -> Any:
        if not any(type(each) is type(value) and each == value for each in allowed):
            raise Mismatch("", f"expected one of {', '.join(map(repr, allowed))}, not {value!r}")
        return value

    return read


def _at(path: str, read: Convert, value: Any) -> Any:
    try:
        return read(value)
    except Mismatch as mismatch:
        raise Mismatch(path + mismatch.path, mismatch.text) from None


def _library_reader(kind: Any) -> Convert | None:
    """For a pydantic model or a msgspec struct; None if it is neither."""
    if hasattr(kind, "model_validate"):
        pydantic = import_module("pydantic")
        return _validating(kind, kind.model_validate, pydantic.ValidationError)
    if hasattr(kind, "__struct_fields__") and isinstance(kind, type):
        msgspec = import_module("msgspec")
        return _validating(
            kind, lambda value: msgspec.convert(value, kind), msgspec.ValidationError
        )
    return None


def _validating(kind: Any, validate: Convert, invalid: type[Exception]) -> Convert:
    def read(value: Any) -> Any:
        try:
            return validate(value)
        except invalid as error:
            text = "; ".join(line.strip() for line in str(error).splitlines()[:4])
            raise Mismatch("", f"not a valid {kind.__name__}: {text}") from None

    return read


def to_document(value: Any) -> Any:
    """A key or value as a document of the client: the reverse of `reader_of`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value)]
        return {name: to_document(getattr(value, name)) for name in names}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(type(value), "__struct_fields__"):
        return sys.modules["msgspec"].to_builtins(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return [to_document(each) for each in value]
    if isinstance(value, dict):
        return {name: to_document(each) for name, each in value.items()}
    return value


def nested_document(value: Any) -> Any:
    """`to_document` of a value; UUIDs in documents are text, while a UUID alone is a key."""
    document = to_document(value)
    return document if isinstance(document, UUID) else _with_text(document)


def _with_text(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: _with_text(each) for name, each in document.items()}
    if isinstance(document, list):
        return [_with_text(each) for each in document]
    return str(document) if isinstance(document, UUID) else document


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_origin(kind) else str(kind)
