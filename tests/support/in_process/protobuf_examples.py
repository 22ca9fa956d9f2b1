"""Protobuf message types, made with the protobuf library, and records as producers write them."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2
from google.protobuf.any_pb2 import DESCRIPTOR as ANY_FILE
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Field = descriptor_pb2.FieldDescriptorProto
ONE, MANY = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED
IMPORTS = (timestamp_pb2.DESCRIPTOR, struct_pb2.DESCRIPTOR, ANY_FILE)


def _field(message: Any, name: str, number: int, of: int | str, label: int = ONE) -> Any:
    kind = {"type": of} if isinstance(of, int) else {"type": Field.TYPE_MESSAGE, "type_name": of}
    return message.field.add(name=name, number=number, label=label, **kind)


def _shop() -> Any:
    """shop.proto, as protoc compiles it."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(each.name for each in IMPORTS)
    order = file.message_type.add(name="Order")
    _field(order, "order_id", 1, Field.TYPE_INT64)
    _field(order, "price", 2, Field.TYPE_DOUBLE)
    note = _field(order, "note", 3, Field.TYPE_STRING)
    note.proto3_optional, note.oneof_index = True, 0
    order.oneof_decl.add(name="_note")
    _field(order, "tags", 4, Field.TYPE_STRING, MANY)
    status = _field(order, "status", 5, Field.TYPE_ENUM)
    status.type_name = ".shop.Status"
    _field(order, "raw", 6, Field.TYPE_BYTES)
    _field(order, "lines", 7, ".shop.Order.Line", MANY)
    _field(order, "counts", 8, ".shop.Order.CountsEntry", MANY)
    _field(order, "at", 9, ".google.protobuf.Timestamp")
    _field(order, "more", 10, ".google.protobuf.Struct")
    _field(order, "any", 11, ".google.protobuf.Any")
    _field(order, "next", 12, ".shop.Order")
    statuses = _field(order, "statuses", 13, Field.TYPE_ENUM, MANY)
    statuses.type_name = ".shop.Status"
    line = order.nested_type.add(name="Line")
    _field(line, "count", 1, Field.TYPE_INT32)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    _field(entry, "key", 1, Field.TYPE_STRING)
    _field(entry, "value", 2, Field.TYPE_INT32)
    kinds = file.enum_type.add(name="Status")
    kinds.value.add(name="NEW", number=0)
    kinds.value.add(name="A_VERY_LONG_NAME_OF_A_STATUS_THAT_TAKES_ONE_BYTE", number=1)
    key = file.message_type.add(name="Key")
    _field(key, "id", 1, Field.TYPE_INT32)
    return file


SHOP = _shop()


def descriptor_set(*files: Any) -> bytes:
    """As `protoc --include_imports --descriptor_set_out` writes it."""
    known = [descriptor_pb2.FileDescriptorProto.FromString(f.serialized_pb) for f in IMPORTS]
    made: bytes = descriptor_pb2.FileDescriptorSet(file=[*known, *files]).SerializeToString()
    return made


DESCRIPTORS = descriptor_set(SHOP)


def serialized(file: Any) -> str:
    """As a registry serves it with `format=serialized`."""
    return base64.b64encode(file.SerializeToString()).decode()


def _class(name: str) -> Any:
    pool = DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS).file:
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


Order, Key = _class("shop.Order"), _class("shop.Key")


def order(**fields: Any) -> bytes:
    """A message of type shop.Order."""
    raw: bytes = Order(**fields).SerializeToString()
    return raw


def key(number: int) -> bytes:
    """A message of type shop.Key."""
    raw: bytes = Key(id=number).SerializeToString()
    return raw


def packed(url: str, raw: bytes) -> Any:
    """An Any."""
    return {"type_url": url, "value": raw}


def framed(schema_id: int, raw: bytes, indexes: bytes = b"\0") -> bytes:
    """As Confluent's serializers write it."""
    return b"\0" + schema_id.to_bytes(4, "big") + indexes + raw


def nested(levels: int) -> bytes:
    """An order with orders in it, `levels` deep."""
    raw = b""
    for _ in range(levels):
        size, length = len(raw), b""
        while size > 0x7F:
            length, size = length + bytes((size & 0x7F | 0x80,)), size >> 7
        raw = b"\x62" + length + bytes((size,)) + raw
    return raw
