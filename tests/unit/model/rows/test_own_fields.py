"""The fields that a view declares itself: by `derive`, or by a file with the schema of its values.

Their names and types are compared with what fastavro and protobuf's json_format read.
"""

from __future__ import annotations

import base64
import decimal
import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import fastavro
import orjson
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from model.derive.evaluation.evaluate import evaluate
from model.derive.evaluation.records import Record
from model.expressions.types import Kind, parse_field_type, text_of_field_type
from model.expressions.values import reader, unquoted
from model.formats.protobuf.schema import from_descriptor_set
from model.formats.registry import FORMATS
from model.formats.schemas import CONFLUENT
from model.problems import ConfigurationError
from model.rows.declared_fields import DERIVE, REGISTRY, SCHEMA
from model.rows.json_fields import member_at
from model.rows.own_fields import declared
from model.views import View
from model.views_file import parse_views
from tests.support.in_process.avro_examples import binary
from tests.support.in_process.protobuf_examples import Field, descriptor_set

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AVRO = """
[views.orders]
topic = "orders"
key = "string"
value = "avro"
value_schema = "order.avsc"
"""
PROTOBUF = """
[views.orders]
topic = "orders"
key = "string"
value = "protobuf"
value_schema = "order.desc"
value_message = "p.Order"
"""
JSON = """
[views.orders]
topic = "orders"
key = "string"
value = "json"
"""
DERIVED = """
[views.orders.derive]
from = "raw"
key = "id"
fields = { id = "string", n = "int 0..59", big = "long?", at = "time ms", price = "decimal(2)", \
ok = "boolean?", share = "double", tags = "strings" }
"""


def parsed(text: str, content: bytes = b"") -> View:
    [view] = parse_views(text, read=lambda _: content).views
    return view


def types_of(view: View) -> dict[str, str]:
    return {field.name: field.text for field in view.fields}


def message(text: str, content: bytes = b"") -> str:
    with pytest.raises(ConfigurationError) as raised:
        parsed(text, content)
    return str(raised.value)


ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [{"name": "city", "type": "string"}, {"name": "floor", "type": ["null", "int"]}],
}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


# name ► type in Avro, the type that it declares (None: none), a value
FIELDS: dict[str, tuple[Any, str | None, Any]] = {
    "flag": ("boolean", "boolean", True),
    "size": ("int", "int", -(2**31)),
    "total": (["null", "long"], "long?", 2**63 - 1),
    "share": ("float", "double", 0.5),
    "ratio": (["double", "null"], "double?", 1e300),
    "text": ("string", "string", "007"),
    "state": ({"type": "enum", "name": "S", "symbols": ["NEW", "OLD"]}, "string", "OLD"),
    "id": (logical("string", "uuid"), "string", UUID(int=7)),
    "at": (logical("long", "timestamp-millis"), "time", EPOCH + timedelta(milliseconds=1500)),
    "micros": (logical("long", "timestamp-micros"), "time", EPOCH + timedelta(microseconds=7)),
    "nanos": (logical("long", "timestamp-nanos"), None, 7),
    "local": (logical("long", "local-timestamp-millis"), "string", datetime(2020, 1, 2, 3)),
    "day": (logical("int", "date"), "string", datetime(2020, 1, 2).date()),
    "clock": (logical("int", "time-millis"), "string", datetime(2020, 1, 2, 3, 4).time()),
    "price": (logical("bytes", "decimal", precision=12, scale=2), "decimal(2)",
              decimal.Decimal("-12345.60")),
    "whole": (logical("bytes", "decimal", precision=18), "long", decimal.Decimal(10**17 + 1)),
    "exact": (logical("bytes", "decimal", precision=30, scale=4), None, decimal.Decimal("1.5")),
    "raw": ("bytes", "string", b"\x00\xff"),
    "hash": ({"type": "fixed", "name": "H", "size": 2}, "string", b"ab"),
    "home": (ADDRESS, None, {"city": "Rome", "floor": 3}),
    "work": (["null", "Address"], None, {"city": "Oslo", "floor": None}),
    "tags": ({"type": "array", "items": "string"}, "strings", ["a", "b"]),
    "ids": ({"type": "array", "items": "long"}, "longs", [1, 2**60]),
    "some": ({"type": "array", "items": ["null", "string"]}, None, ["a", None]),
    "prices": ({"type": "array", "items": logical("bytes", "decimal", precision=4)}, None, []),
    "labels": (["null", {"type": "map", "values": "string"}], "map?", {"colour": "red"}),
    "homes": ({"type": "map", "values": "Address"}, None, {}),
    "mixed": (["string", "long"], None, 7),
    "nothing": ("null", None, None),
}  # fmt: skip
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": name, "type": type_} for name, (type_, _, _) in FIELDS.items()],
}
EXPECTED = {name: text for name, (_, text, _) in FIELDS.items() if text is not None} | {
    "home.city": "string", "home.floor": "int?", "work.city": "string?", "work.floor": "int?",
}  # fmt: skip


def test_an_avro_schema_declares_the_fields_of_its_values() -> None:
    view = parsed(AVRO, json.dumps(ORDER).encode())
    assert types_of(view) == EXPECTED
    assert {field.declared_by for field in view.fields} == {SCHEMA}


def comparable(value: Any) -> Any:
    """What fastavro reads, as conditions have it."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if isinstance(value, UUID):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value


def test_conditions_read_the_values_that_fastavro_reads() -> None:
    view = parsed(AVRO, json.dumps(ORDER).encode())
    raw = binary(ORDER, {name: value for name, (_, _, value) in FIELDS.items()})
    read: Any = fastavro.schemaless_reader(io.BytesIO(raw), fastavro.parse_schema(ORDER), None)
    document = orjson.loads(view.value_codec.to_json(raw))
    for field in view.fields:
        written = member_at(document, field.path)
        is_number = field.type.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
        value = reader(field.type)(unquoted(written) if is_number else written)
        expected = comparable(member_at(read, field.path))
        if field.name in ("clock", "local"):
            assert str(value).startswith(expected)  # ours has all digits
        else:
            assert value == expected, field.name


def test_a_record_within_itself_and_odd_names_declare_no_more() -> None:
    node = {
        "type": "record",
        "name": "Node",
        "fields": [
            {"name": "left", "type": ["null", "Node"]},
            {"name": "a.b", "type": "string"},
            {"name": "n", "type": "int"},
            {"name": "leaf", "type": {"type": "record", "name": "Leaf", "fields": [
                {"name": "up", "type": ["null", "Node"]}, {"name": "m", "type": "int"}]}},
        ],
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("model.rows.own_fields.MAX_OWN_FIELDS", 3)
        assert types_of(parsed(AVRO, json.dumps(node).encode())) == {"n": "int", "leaf.m": "int"}
    assert types_of(parsed(AVRO, b'["null", "string"]')) == {}
    rows = json.dumps(["null", ADDRESS]).encode()
    assert types_of(parsed(AVRO + "null_deletes = true\n", rows)) == {
        "city": "string",
        "floor": "int?",
    }


ROW = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
CHANGE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ],
}


def test_rows_in_events_of_debezium_have_the_fields_of_the_row() -> None:
    unwrapped = AVRO + 'unwrap = "debezium"\n'
    assert types_of(parsed(unwrapped, json.dumps(CHANGE).encode())) == {"id": "long?"}
    assert types_of(parsed(unwrapped, json.dumps(ROW).encode())) == {"id": "long"}
    assert types_of(parsed(AVRO, json.dumps(CHANGE).encode())) == {
        "before.id": "long?", "after.id": "long?", "op": "string",
    }  # fmt: skip


def order_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="p", syntax="proto3")
    file.dependency.append(TIMESTAMP.name)
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="OLD", number=1)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, type=Field.TYPE_STRING, label=1)
    for number, (name, kind, of, label) in enumerate([
        ("order_id", Field.TYPE_INT64, "", 1),
        ("big", Field.TYPE_UINT64, "", 1),
        ("weight", Field.TYPE_UINT32, "", 1),
        ("unit_price", Field.TYPE_DOUBLE, "", 1),
        ("is_gift", Field.TYPE_BOOL, "", 1),
        ("state", Field.TYPE_ENUM, ".p.State", 1),
        ("created_at", Field.TYPE_MESSAGE, ".google.protobuf.Timestamp", 1),
        ("raw", Field.TYPE_BYTES, "", 1),
        ("tag_names", Field.TYPE_STRING, "", 3),
        ("counts", Field.TYPE_INT32, "", 3),
        ("ids", Field.TYPE_INT64, "", 3),
        ("states", Field.TYPE_ENUM, ".p.State", 3),
        ("labels", Field.TYPE_MESSAGE, ".p.Order.LabelsEntry", 3),
        ("parent", Field.TYPE_MESSAGE, ".p.Order", 1),
        ("inner", Field.TYPE_MESSAGE, ".p.Inner", 1),
    ], 1):  # fmt: skip
        order.field.add(name=name, number=number, type=kind, type_name=of or None, label=label)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="zip_code", number=1, type=Field.TYPE_STRING, label=1)
    return file


PROTOBUF_FIELDS = {
    "orderId": "long",
    "weight": "long",
    "unitPrice": "double",
    "isGift": "boolean",
    "state": "string",
    "createdAt": "time?",
    "raw": "string",
    "tagNames": "strings",
    "counts": "longs",
    "labels": "map",
    "inner.zipCode": "string?",
}


def test_a_protobuf_message_declares_the_fields_of_its_json() -> None:
    content = descriptor_set(order_file())
    assert types_of(parsed(PROTOBUF, content)) == PROTOBUF_FIELDS


def test_conditions_read_the_values_of_protobufs_json() -> None:
    content = descriptor_set(order_file())
    view, type_ = parsed(PROTOBUF, content), from_descriptor_set(content).message("p.Order")
    order = type_.parse(b"")
    order.order_id, order.weight, order.unit_price, order.is_gift = -(2**63), 2**32 - 1, 0.1, True
    order.state, order.raw = 1, b"\xff\x00"
    order.created_at.FromMicroseconds(1_500_000)
    order.tag_names.append("a")
    order.counts.append(7)
    order.labels["colour"] = "red"
    order.inner.zip_code = "007"
    expected = {
        "orderId": -(2**63), "weight": 2**32 - 1, "unitPrice": 0.1, "isGift": True,
        "state": "OLD", "createdAt": 1_500_000, "raw": "/wA=", "tagNames": ["a"], "counts": [7],
        "labels": {"colour": "red"}, "inner.zipCode": "007",
    }  # fmt: skip
    document = MessageToDict(order)  # protobuf's own JSON
    assert orjson.loads(view.value_codec.to_json(order.SerializeToString())).items() >= (
        document.items()
    )
    for field in view.fields:
        written = member_at(document, field.path)
        is_number = field.type.kind in (Kind.INTEGER, Kind.DOUBLE)
        value = reader(field.type)(unquoted(written) if is_number else written)
        assert value == expected[field.name], field.name


@pytest.mark.parametrize(
    ("derive", "types"),
    [
        ("", {"id": "string", "n": "int", "big": "long?", "at": "time", "price": "decimal(2)",
              "ok": "boolean?", "share": "double", "tags": "strings"}),
        ('select = { minute = "n + 1", day = "date(at)", twice = "price * price" }',
         {"minute": "int", "day": "string", "twice": "double"}),
        ('select = "n"\n', {"value": "int"}),
        ("count = true\nsum = { n = 'n', price = 'price' }\nmax = { price_max = 'price' }\n"
         "avg = { mean = 'big' }\ndistinct = { ids = 'id' }\nmin = { first = 'at' }",
         {"count": "long", "n": "long", "price": "double", "first": "time",
          "price_max": "decimal(2)", "mean": "double?", "ids": "long"}),
        ('latest = "at"\nselect = ["n", "ok"]', {"n": "int", "ok": "boolean?"}),
        ('latest = "at"\nselect = "n"', {"latest": "int"}),
        ('latest = "at"\ncount = true\nselect = ["n", "ok"]',
         {"latest.n": "int", "latest.ok": "boolean?", "count": "long"}),
        ('top_k = { k = 3, by = "n" }\nselect = "id"', {"top_k": "strings"}),
        ('top_k = { k = 3, by = "n" }\nselect = "big"', {}),
        ('top_k = { k = 3, by = "n" }\ncount = true', {"count": "long"}),
    ],
)  # fmt: skip
def test_a_derived_view_declares_its_fields(derive: str, types: Mapping[str, str]) -> None:
    view = parsed('[views.orders]\nvalue = "json"\n' + DERIVED + derive)
    assert types_of(view) == types
    assert {field.declared_by for field in view.fields} <= {DERIVE}
    # the values of the job, except that this sum has more digits than a field may have
    rows = [
        {"id": "a", "n": 59, "big": 2**63 - 1, "at": 1_500, "price": price, "ok": True,
         "share": 0.5, "tags": ["x"]}
        for price in (9999999999999.99, 9999999999999.98)
    ]  # fmt: skip
    evaluation = evaluate(view, [Record(json.dumps(row).encode()) for row in rows])
    [line] = evaluation.lines()
    value = json.loads(line)["value"]
    for field in view.fields:
        assert reader(field.type)(member_at(value, field.path)) is not None, field.name


def test_a_value_that_is_no_object_has_no_fields() -> None:
    assert types_of(parsed(DERIVED + "count = true")) == {}  # an int64
    assert types_of(parsed(JSON)) == {}


def test_an_index_may_name_these_fields() -> None:
    schema = json.dumps(ORDER).encode()
    view = parsed(AVRO + '[views.orders.indexes]\nby-city = ["home.city", "at"]', schema)
    assert [field.name for field in view.indexes[0].fields] == ["home.city", "at"]
    assert "declared fields: flag, size" in message(
        AVRO + '[views.orders.indexes]\nby-x = ["x"]', schema
    )


def test_declarations_change_no_store_and_are_in_the_hash_of_fields() -> None:
    schema = json.dumps(ORDER).encode()
    own = parsed(AVRO, schema)
    narrowed = parsed(AVRO + '[views.orders.fields]\nsize = "int 0..9"', schema)
    assert own.hash == narrowed.hash
    without = parsed(JSON)
    assert len({own.fields_hash, narrowed.fields_hash, without.fields_hash}) == 3
    # the hash of a view without fields, as before there were such fields
    assert without.fields_hash == "4f53cda18c2baa0c"


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("size", "int? 0..100"), ("total", "long? 0..9"), ("total", "int"), ("total", "time ms"),
        ("text", "string"), ("text", "any"), ("text", "time?"), ("text", "long"),
        ("ratio", "decimal(2)"), ("ratio", "double?"), ("price", "decimal(2) 0..10"),
        ("at", "time?"), ("tags", "strings?"), ("exact", "double"), ("exact", "string"),
        ("nanos", "time"), ("unknown", "long"), ("labels.colour", "string?"), ("home", "map"),
    ],
)  # fmt: skip
def test_a_table_may_have_the_same_type_or_a_narrower_one(name: str, type_: str) -> None:
    table = f'[views.orders.fields]\n"{name}" = "{type_}"'
    view = parsed(AVRO + table, json.dumps(ORDER).encode())
    [written] = [field for field in view.fields if not field.declared_by]
    assert (written.name, written.text) == (name, type_)
    assert types_of(view) == EXPECTED | {name: type_}


@pytest.mark.parametrize(
    ("name", "type_", "reason"),
    [
        ("size", "string", '"string" does not fit the type that the schema of the values declares, '
         '"int": omit the line, or write a type of the same values, or of some of them: '
         '"int 0..100"'),
        ("size", "double", '"int"'), ("size", "decimal(2)", '"int"'), ("size", "any", '"int"'),
        ("ratio", "long", '"double?"'), ("price", "decimal(3)", '"decimal(2)"'),
        ("price", "double", '"decimal(2)"'), ("price", "string", '"decimal(2)"'),
        ("at", "string", '"time"'), ("at", "time ms", '"time"'), ("at", "any", '"time"'),
        ("text", "boolean", '"string"'), ("tags", "string", '"strings"'),
        ("ids", "strings", '"longs"'), ("labels", "string", '"map?"'), ("flag", "int", '"boolean"'),
        ("text.a", "string", 'declares text as "string", without fields'),
        ("home", "string", "it is an object: the schema of the values declares its field home."),
    ],
)  # fmt: skip
def test_a_table_with_another_type_is_an_error(name: str, type_: str, reason: str) -> None:
    table = f'[views.orders.fields]\nunknown = "int"\n"{name}" = "{type_}"'
    found = message(AVRO + table, json.dumps(ORDER).encode())
    assert reason in found
    assert found.startswith(f"views.toml, line 9, [views.orders.fields], {name}: ")


def test_a_text_of_a_derived_view_is_no_number() -> None:
    text = '[views.orders]\nvalue = "json"\n[views.orders.fields]\nid = "{}"'
    assert types_of(parsed(text.format("time") + DERIVED))["id"] == "time"
    assert 'that derive declares, "string": ' in message(text.format("long") + DERIVED)


@pytest.mark.parametrize(
    "text",
    ["string", "int?", "long", "double?", "decimal(14)", "boolean", "time?", "strings", "longs?",
     "map"],
)  # fmt: skip
def test_the_text_of_a_type(text: str) -> None:
    assert text_of_field_type(parse_field_type(text)) == text


def registered(name: str, text: str, *references: tuple[str, str]) -> dict[str, str]:
    fields = FORMATS[name].registered_fields(text, references)
    return {field.name: field.text for field in declared(fields, REGISTRY)}


def test_schemas_in_a_registry_have_the_same_fields() -> None:
    assert registered("avro", json.dumps(ORDER)) == EXPECTED
    home = {"type": "record", "name": "H", "fields": [{"name": "home", "type": "Address"}]}
    assert registered("avro", json.dumps(home), ("Address", json.dumps(ADDRESS))) == {
        "home.city": "string",
        "home.floor": "int?",
    }
    assert registered("avro", '"string"') == {}
    file = order_file()
    serialized = base64.b64encode(file.SerializeToString()).decode()
    assert registered("protobuf", serialized) == PROTOBUF_FIELDS
    schema = {
        "type": "object",
        "required": ["id", "n"],
        "properties": {
            "id": {"type": "string"},
            "n": {"type": "integer", "minimum": 0, "maximum": 99},
            "at": {"type": "string", "format": "date-time"},
            "home": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    assert registered("json", json.dumps(schema)) == {
        "id": "string", "n": "int", "at": "time?", "home.city": "string?",
    }  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_formats_say_whether_numbers_are_texts(name: str) -> None:
    format_ = FORMATS[name]
    if "schema" in format_.fields or format_.codec is not None:
        definition = CONFLUENT if "schema" in format_.fields else None
        assert format_.codec_with(definition, None).quotes_numbers == format_.quotes_numbers
