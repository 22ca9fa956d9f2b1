"""Protobuf messages as columns: bare, and framed with their schema. Needs no session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, struct_pb2, wrappers_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from spark.errors import JobError
from spark.formats.protobuf import ProtobufFormat
from spark.formats.registry import Registry
from tests.support.examples import examples
from tests.support.in_process.avro_examples import FakeRegistry, registry
from tests.support.in_process.protobuf_examples import (
    DESCRIPTORS,
    SHOP,
    Field,
    descriptor_set,
    framed,
    key,
    nested,
    order,
    packed,
    serialized,
)
from tests.unit.spark.formats.test_avro import read

ORDERS = ProtobufFormat(DESCRIPTORS, "shop.Order")
EMPTY: dict[str, Any] = {
    "order_id": 0, "price": 0.0, "note": None, "tags": [], "status": "NEW", "raw": b"",
    "lines": [], "counts": [], "at": None, "more": None, "any": None, "next": None, "statuses": [],
}  # fmt: skip


def test_all_types_have_columns() -> None:
    assert {each.name: each.dataType.simpleString() for each in ORDERS.columns} == {
        "order_id": "bigint", "price": "double", "note": "string", "tags": "array<string>",
        "status": "string", "raw": "binary", "lines": "array<struct<count:int>>",
        "counts": "map<string,int>", "at": "timestamp", "more": "string", "any": "string",
        "next": "string", "statuses": "array<string>",
    }  # fmt: skip
    nullable = [each.name for each in ORDERS.columns if each.nullable]
    assert nullable == ["note", "at", "more", "any", "next"]
    more = struct_pb2.Struct()
    more.update({"a": [1]})
    raw = order(
        order_id=2**62, price=2.5, note="", tags=["x"], status=7, raw=b"\xff", lines=[{"count": 3}],
        counts={"a": 1}, at=datetime(2026, 1, 1, tzinfo=UTC), more=more,
        any=packed("type.googleapis.com/shop.Key", key(5)), next={"order_id": 1}, statuses=[0, 1],
    )  # fmt: skip
    empty, full = read(ORDERS, b"", raw)
    assert empty == EMPTY
    text = full.pop("next")
    assert text.startswith('{"orderId":"1","price":0.0,')
    assert full == {
        "order_id": 2**62, "price": 2.5, "note": "", "tags": ["x"], "status": "7", "raw": b"\xff",
        "lines": [{"count": 3}], "counts": [("a", 1)], "at": datetime(2026, 1, 1, tzinfo=UTC),
        "more": '{"a":[1.0]}', "any": '{"@type":"type.googleapis.com/shop.Key","id":5}',
        "statuses": ["NEW", "A_VERY_LONG_NAME_OF_A_STATUS_THAT_TAKES_ONE_BYTE"],
    }  # fmt: skip


def test_malformed_messages_have_reasons() -> None:
    late = order(at={"seconds": 253_402_300_800})
    unknown = order(any=packed("type.googleapis.com/shop.No", b""))
    found = read(ORDERS, b"\x08", late, unknown, nested(101), b"\x1a\x01\xff", None)
    assert found[0].startswith("not a shop.Order")
    assert found[1] == "a Timestamp that is not within the years 1 to 9999"
    assert found[2].startswith("an Any of type shop.No")
    assert all(isinstance(each, str) for each in found)


@given(st.lists(st.binary(max_size=40), max_size=5))
@settings(max_examples=examples(200))
def test_no_bytes_make_decoding_fail(values: list[bytes]) -> None:
    read(ORDERS, *values, order(order_id=1))


def test_a_wrong_message_type_is_refused() -> None:
    with pytest.raises(JobError, match=r"shop\.No is not a message type .* shop\.Order"):
        _ = ProtobufFormat(DESCRIPTORS, "shop.No").columns
    with pytest.raises(JobError, match="not a descriptor set"):
        _ = ProtobufFormat(b"\xff", "shop.Order").columns


def add(running: FakeRegistry, schema_id: int) -> None:
    path = f"/schemas/ids/{schema_id}"
    document = {"schemaType": "PROTOBUF"}
    running.answers[path] = (200, {"schema": "message Order {}", **document})
    running.answers[f"{path}?format=serialized"] = (200, {"schema": serialized(SHOP), **document})


def test_the_frame_names_the_message_type() -> None:
    with registry() as running:
        add(running, 1)
        running.add(2, "int")
        of = ProtobufFormat(
            DESCRIPTORS, "shop.Order", is_framed=True, column="order",
            registry=Registry(running.url),
        )  # fmt: skip
        found = read(
            of,
            framed(1, order(order_id=7)),
            framed(1, key(7), b"\2\2"),
            framed(1, order(order_id=7), b"\2\x12"),
            framed(2, order(order_id=7)),
            framed(3, order(order_id=7)),
            order(order_id=7),
        )
    assert found == [
        {"order": {**EMPTY, "order_id": 7}},
        "a shop.Key, not a shop.Order",
        "the schema has no message type at index 9",
        "schema 2: the schema is avro, not protobuf",
        "schema 3: the registry has no schema with this id",
        "without Confluent's framing: a zero byte and 4 bytes with the schema id",
    ]


def written_again(of: ProtobufFormat, raw: bytes) -> bytes:
    """What a view writes that has only read the message."""
    read = of.decoder()(raw)
    [value] = pa.array([read], to_arrow_type(of.value_type, timezone="UTC")).to_pylist(
        maps_as_pydicts="strict"
    )
    return of.encoder()(value)


def test_a_message_with_enums_of_a_later_schema_is_written_again() -> None:
    raw = order(status=7, statuses=[1, 9], next={"status": 8})
    assert written_again(ORDERS, raw) == raw
    with pytest.raises(ValueError, match='unknown enum label "ODD"'):
        ORDERS.encoder()({"status": "ODD"})


def test_a_message_with_another_one_in_an_any_is_written_again() -> None:
    raw = order(any=packed("type.googleapis.com/shop.Key", key(5)))
    assert written_again(ORDERS, raw) == raw


def numbers_file() -> Any:
    """A message type with 64-bit unsigned numbers in all places."""
    wrapper = ".google.protobuf.UInt64Value"
    file = descriptor_pb2.FileDescriptorProto(name="n.proto", package="n", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    numbers = file.message_type.add(name="Numbers")
    entry = numbers.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, label=1, type=Field.TYPE_UINT64)
    add = numbers.field.add
    add(name="one", number=1, label=1, type=Field.TYPE_UINT64)
    add(name="many", number=2, label=3, type=Field.TYPE_FIXED64)
    for number, (name, label, of) in enumerate(
        (("counts", 3, ".n.Numbers.CountsEntry"), ("rare", 1, wrapper), ("more", 3, wrapper)), 3
    ):
        add(name=name, number=number, label=label, type=Field.TYPE_MESSAGE, type_name=of)
    return file


def test_unsigned_numbers_are_written_in_all_places() -> None:
    of = ProtobufFormat(descriptor_set(numbers_file()), "n.Numbers")
    most = 2**64 - 1
    wrapper = wrappers_pb2.UInt64Value(value=most).SerializeToString()
    varint = wrapper[1:]
    raw = (
        b"\x08" + varint  # one
        + b"\x12\x08" + b"\xff" * 8  # many
        + b"\x1a\x16\x08" + varint + b"\x10" + varint  # counts
        + b"\x22\x0b" + wrapper  # rare
        + b"\x2a\x0b" + wrapper  # more
    )  # fmt: skip
    assert of.decoder()(raw)["counts"] == [(most, most)]
    assert written_again(of, raw) == raw
