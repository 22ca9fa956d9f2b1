"""Reads and writes Protobuf messages as Python values that Arrow converts to Spark's types."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import Any

import orjson
from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from model.formats.protobuf.schema import MessageType, ProtobufFile, from_descriptor_set
from model.formats.schema_registry import RegisteredSchema
from spark.formats.batches import Fields

Convert = Callable[[Any], Any]
Column = tuple[DataType, Convert]
"""The Spark type of a field, and a function from its value to what Arrow converts."""

_SCALARS: dict[int, DataType] = {
    Field.CPPTYPE_INT32: IntegerType(),
    Field.CPPTYPE_UINT32: LongType(),
    Field.CPPTYPE_INT64: LongType(),
    Field.CPPTYPE_UINT64: DecimalType(20, 0),
    Field.CPPTYPE_FLOAT: FloatType(),
    Field.CPPTYPE_DOUBLE: DoubleType(),
    Field.CPPTYPE_BOOL: BooleanType(),
    Field.CPPTYPE_STRING: StringType(),
    Field.CPPTYPE_ENUM: StringType(),
}
_KNOWN = "google.protobuf."
_WRAPPERS = {
    f"{_KNOWN}{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
}
_DOCUMENTS = {f"{_KNOWN}{name}" for name in ("Any", "Struct", "Value", "ListValue", "FieldMask")}
_FIRST, _END = -62_135_596_800, 253_402_300_800  # s: the years 1 to 9999


class ProtobufReader:
    """Reads messages of one type. Raises ValueError if the descriptor set does not have it."""

    def __init__(self, descriptor_set: bytes, message: str) -> None:
        file = from_descriptor_set(descriptor_set)
        if message not in file.messages:
            known = ", ".join(file.messages[:20])
            raise ValueError(f"{message} is not a message type of the file; it has: {known}")
        self._message: MessageType = file.message(message)
        self._name = message
        type_, self._convert = self._struct(self._message.descriptor, ())
        assert isinstance(type_, StructType)
        self.type = type_

    def decode(self, raw: bytes) -> Fields:
        """Decodes a message. Raises ValueError if ``raw`` is not a message of this type."""
        message = self._message.parse(raw)
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise ValueError(f"not a {self._name}: without the required fields {missing}")
        fields: Fields = self._convert(message)
        return fields

    def encode(self, value: Any) -> bytes:
        """The inverse of ``decode``. Raises ValueError if the fields do not fit the message."""
        return self._message.from_fields(_to_message(self._message.descriptor, value, ()))

    def written_with(self, schema: RegisteredSchema) -> Callable[[bytes], Fields]:
        """A function that reads what follows the schema id in a frame."""
        if schema.format.name != "protobuf":
            raise ValueError(f"the schema is {schema.format.name}, not protobuf")
        file = schema.parsed()
        assert isinstance(file, ProtobufFile)

        def decode(raw: bytes) -> Fields:
            name, message = file.located(raw)
            if name != self._name:
                raise ValueError(f"a {name}, not a {self._name}")
            return self.decode(message)

        return decode

    def _struct(self, descriptor: Any, within: tuple[str, ...]) -> Column:
        """A struct with the message's fields."""
        within = (*within, descriptor.full_name)
        types: list[StructField] = []
        reads: list[tuple[str, bool, Convert]] = []
        for field in descriptor.fields:
            spark_type, convert = self._field(field, within)
            types.append(StructField(field.name, spark_type, field.has_presence))
            reads.append((field.name, field.has_presence, convert))

        def read(message: Any) -> Fields:
            return {
                name: convert(getattr(message, name))
                if not has_presence or message.HasField(name)
                else None
                for name, has_presence, convert in reads
            }

        return StructType(types), read

    def _field(self, field: Any, within: tuple[str, ...]) -> Column:
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            keys, key_of = self._single(message.fields_by_name["key"], within)
            value_field = message.fields_by_name["value"]
            values, value_of = self._single(value_field, within)
            return MapType(keys, values, _is_wrapper(value_field)), lambda entries: [
                (key_of(key), value_of(entries[key])) for key in entries
            ]
        item, convert = self._single(field, within)
        if field.is_repeated:
            return ArrayType(item, _is_wrapper(field)), lambda items: [*map(convert, items)]
        return item, convert

    def _single(self, field: Any, within: tuple[str, ...]) -> Column:
        """The column of a field's value, or of one of its items."""
        if field.enum_type is not None:
            names = {value.number: value.name for value in field.enum_type.values}
            return StringType(), lambda number: names.get(number) or str(number)
        message = field.message_type
        if message is None:
            if field.type == Field.TYPE_BYTES:
                return BinaryType(), _same
            is_unsigned = field.cpp_type == Field.CPPTYPE_UINT64
            return _SCALARS[field.cpp_type], Decimal if is_unsigned else _same
        name = message.full_name
        if name == f"{_KNOWN}Timestamp":
            return TimestampType(), _timestamp
        if name == f"{_KNOWN}Duration":
            return DayTimeIntervalType(), _microseconds
        if name in _WRAPPERS:
            wrapped, convert = self._single(message.fields_by_name["value"], within)
            return wrapped, lambda wrapper: convert(wrapper.value)
        if _is_document(message, within):
            document = self._message.document
            return StringType(), lambda nested: document(nested).decode()
        return self._struct(message, within)


@lru_cache(100)
def reader_of(descriptor_set: bytes, message: str) -> ProtobufReader:
    return ProtobufReader(descriptor_set, message)


def _to_message(descriptor: Any, fields: Fields, within: tuple[str, ...]) -> Fields:
    """Fields as the constructors of messages take them. Null fields are left out."""
    within = (*within, descriptor.full_name)
    unknown = fields.keys() - descriptor.fields_by_name.keys()
    if unknown:
        raise ValueError(f"{descriptor.full_name} has no field {', '.join(sorted(unknown))}")
    return {
        name: _to_field(descriptor.fields_by_name[name], value, within)
        for name, value in fields.items()
        if value is not None
    }


def _to_field(field: Any, value: Any, within: tuple[str, ...]) -> Any:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key_field, value_field = (message.fields_by_name[name] for name in ("key", "value"))
        return {
            _to_scalar(key_field, key): _to_item(value_field, item, within)
            for key, item in value.items()
        }
    if field.is_repeated:
        return [_to_item(field, item, within) for item in value]
    return _to_item(field, value, within)


def _to_item(field: Any, value: Any, within: tuple[str, ...]) -> Any:
    """A field's value, or one of its items."""
    message = field.message_type
    if message is None:
        return _to_scalar(field, value)
    name = message.full_name
    if name in _WRAPPERS:
        return {"value": _to_scalar(message.fields_by_name["value"], value)}
    if _is_document(message, within):
        made = GetMessageClass(message)()
        return ParseDict(orjson.loads(value), made, descriptor_pool=message.file.pool)
    return _to_message(message, value, within) if isinstance(value, dict) else value


def _to_scalar(field: Any, value: Any) -> Any:
    if field.cpp_type == Field.CPPTYPE_UINT64:
        return int(value)
    if field.enum_type is not None and value not in field.enum_type.values_by_name:
        # a number without a name here: a later schema names it
        with suppress(ValueError):
            return int(value)
    return value


def _is_document(message: Any, within: tuple[str, ...]) -> bool:
    """Whether the message becomes a string with its JSON in Spark."""
    name = message.full_name
    return name in _DOCUMENTS or name in within or not message.fields


def _is_wrapper(field: Any) -> bool:
    return field.message_type is not None and field.message_type.full_name in _WRAPPERS


def _same(value: Any) -> Any:
    return value


def _timestamp(timestamp: Any) -> int:
    if not _FIRST <= timestamp.seconds < _END or not 0 <= timestamp.nanos < 1_000_000_000:
        raise ValueError("a Timestamp that is not within the years 1 to 9999")
    return _microseconds(timestamp)


def _microseconds(time: Any) -> int:
    microseconds: int = 1_000_000 * time.seconds + time.nanos // 1000
    return microseconds
