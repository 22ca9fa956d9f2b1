"""The fields of a Protobuf message: those that a derived view can use, and those of its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from model.expressions.types import (
    BOOLEAN,
    DOUBLE,
    LONGS,
    MAP,
    STRING,
    STRINGS,
    TIME,
    Type,
    integer,
    parse_field_type,
)
from model.formats.format import ENVELOPE, MAX_FIELD_LEVELS, NO_ROW_FIELDS, DeclaredField
from model.formats.protobuf.bounds import is_map
from model.formats.protobuf.schema import MessageType, from_descriptor_set

_SCALARS: Mapping[int, Type] = {
    FieldDescriptor.CPPTYPE_INT32: parse_field_type("int"),
    FieldDescriptor.CPPTYPE_UINT32: integer(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: parse_field_type("long"),
    FieldDescriptor.CPPTYPE_FLOAT: DOUBLE,
    FieldDescriptor.CPPTYPE_DOUBLE: DOUBLE,
    FieldDescriptor.CPPTYPE_BOOL: BOOLEAN,
    FieldDescriptor.CPPTYPE_ENUM: STRING,
}
_KNOWN = "google.protobuf."
_WRAPPERS: Mapping[str, Type] = {
    f"{_KNOWN}{name}Value": type_
    for name, type_ in {
        "Bool": BOOLEAN,
        "Double": DOUBLE,
        "Float": DOUBLE,
        "Int32": parse_field_type("int"),
        "Int64": parse_field_type("long"),
        "String": STRING,
        "UInt32": integer(0, 2**32 - 1),
    }.items()
}


def declared_fields(
    content: bytes, message: str, *, unwrap: bool = False
) -> Iterator[DeclaredField]:
    """``unwrap``: the fields of the row in a change. Raises ValueError if the descriptor set does
    not have the message type. Left out are repeated fields, maps, bytes, uint64, and messages
    within themselves."""
    file = from_descriptor_set(content)
    if message not in file.messages:
        known = ", ".join(file.messages[:20])
        raise ValueError(f'"{message}" is not a message type of the file; it has: {known}')
    descriptor = file.message(message).descriptor
    if unwrap and {field.name for field in descriptor.fields} >= ENVELOPE:
        descriptor = descriptor.fields_by_name["after"].message_type
        if descriptor is None or not descriptor.fields:
            raise ValueError(NO_ROW_FIELDS)
    yield from _fields(descriptor, (), ())


def json_fields(message: MessageType) -> Iterator[DeclaredField]:
    """The fields of the JSON of messages, with their names there. Left out are lists and maps of
    other values than texts and numbers, uint64, messages within themselves, and what has no type
    here."""
    yield from _fields(message.descriptor, (), (), in_json=True)


def _fields(
    descriptor: Any, prefix: tuple[str, ...], within: tuple[str, ...], in_json: bool = False
) -> Iterator[DeclaredField]:
    within = (*within, descriptor.full_name)
    for field in descriptor.fields:
        path = (*prefix, field.json_name if in_json else field.name)
        type_ = _type_in_json(field) if in_json else _type_of(field)
        if type_ is not None:
            # in a message that is not set, no field is set
            yield path, type_.or_null(field.has_presence or bool(prefix))
        elif _has_fields(field, within) and len(path) < MAX_FIELD_LEVELS:
            yield from _fields(field.message_type, path, within, in_json)


def _type_of(field: Any) -> Type | None:
    if field.is_repeated:
        return None
    if field.message_type is not None:
        name = field.message_type.full_name
        return TIME if name == f"{_KNOWN}Timestamp" else _WRAPPERS.get(name)
    if field.type == FieldDescriptor.TYPE_STRING:
        return STRING
    return _SCALARS.get(field.cpp_type)


def _has_fields(field: Any, within: tuple[str, ...]) -> bool:
    """Whether the fields of the field's message can be used: it is one, and not within itself."""
    if field.message_type is None or field.is_repeated:
        return False
    name = field.message_type.full_name
    return name not in within and not name.startswith(_KNOWN)


def _type_in_json(field: Any) -> Type | None:
    """The type of a value in JSON. Whole numbers of 64 bits are texts there, which conditions read
    as numbers, but not in lists."""
    if field.enum_type is not None and field.enum_type.full_name == f"{_KNOWN}NullValue":
        return None  # always null
    if is_map(field):
        values = field.message_type.fields_by_name["value"]
        return MAP if values.message_type is None else None
    if not field.is_repeated:
        return STRING if field.type == FieldDescriptor.TYPE_BYTES else _type_of(field)
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return STRINGS
    # an enum may have a number instead of a name
    numbers = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32)
    return LONGS if field.cpp_type in numbers else None
