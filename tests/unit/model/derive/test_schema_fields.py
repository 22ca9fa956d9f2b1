"""[sources.NAME] with format = "avro": the schema declares the fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from model.derive.derivation import Derivation, ValueSchema
from model.expressions.types import (
    BOOLEAN,
    DOUBLE,
    STRING,
    TIME,
    Kind,
    Type,
    integer,
    parse_field_type,
)
from model.problems import ConfigurationError
from model.rows.reader import RowRule
from model.views_file import parse_views
from tests.support.in_process.protobuf_examples import ONE, SHOP, Field, descriptor_set

ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [{"name": "city", "type": "string"}, {"name": "floor", "type": ["null", "int"]}],
}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "size", "type": "int"},
        {"name": "total", "type": ["null", "long"], "default": None},
        {"name": "share", "type": "float"},
        {"name": "paid", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "state", "type": {"type": "enum", "name": "S", "symbols": ["NEW", "OLD"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12,
                                   "scale": 2}},
        {"name": "number", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10}},
        {"name": "exact", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30,
                                   "scale": 4}},
        {"name": "home", "type": ADDRESS},
        {"name": "work", "type": ["null", "shop.Address"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "raw", "type": "bytes"},
        {"name": "mixed", "type": ["string", "long"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ],
}  # fmt: skip
INT, LONG = parse_field_type("int"), parse_field_type("long")
FILES = {"order.avsc": json.dumps(ORDER), "text.avsc": '"string"', "bad.avsc": '{"type": "recor'}
SOURCE = '[sources.orders]\nformat = "avro"\nschema = "order.avsc"\n'
VIEW = '[views.x.derive]\nfrom = "orders"\n'


def read(name: str) -> bytes:
    if name not in FILES:
        raise ValueError("cannot read the file: No such file or directory")
    return FILES[name].encode()


def derivation(text: str) -> Derivation:
    [view] = parse_views(text, read=read).views
    assert view.derivation is not None
    return view.derivation


def error(text: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        parse_views(text, read=read)
    return str(raised.value)


def test_an_avro_schema_declares_its_fields() -> None:
    found = derivation(f'{SOURCE}value_schema = "confluent"\n{VIEW}key = "id"\ncount = true')
    assert dict(found.fields) == {
        "id": STRING,
        "size": INT,
        "total": LONG.or_null(),
        "share": DOUBLE,
        "paid": BOOLEAN,
        "at": TIME,
        "state": STRING,
        "price": Type(Kind.DECIMAL, scale=2),
        "number": LONG,
        "home__city": STRING,
        "home__floor": INT.or_null(),
        "work__city": STRING.or_null(),
        "work__floor": INT.or_null(),
    }
    assert dict(found.paths)["work__floor"] == ("work", "floor")
    assert found.schema == ValueSchema("avro", FILES["order.avsc"].encode(), is_framed=True)
    assert found.rows is None


def test_fields_of_records_have_names_with_dots() -> None:
    text = """key = ["home.city", "work.city"]
where = "work.city is not null and home.floor > 2"
time = "at"
window = "1d"
identity = ["id", "at", "home.city", "work.city", "home.floor"]
count = true
"""
    found = derivation(SOURCE + VIEW + text)
    assert found.identity == ("id", "at", "home__city", "work__city", "home__floor")
    assert not any(part.type.optional for part in found.key)
    select = derivation(f'{SOURCE}{VIEW}key = "id"').select
    assert select is not None
    assert [name for name, _ in select.values][-4:] == [
        "home.city", "home.floor", "work.city", "work.floor",
    ]  # fmt: skip


def test_a_protobuf_message_declares_its_fields() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="parcel.proto", package="p", syntax="proto3")
    file.dependency.append("shop.proto")
    parcel = file.message_type.add(name="Parcel")
    for number, (name, kind, of) in enumerate([
        ("order", Field.TYPE_MESSAGE, ".shop.Order"),
        ("weight", Field.TYPE_UINT32, ""),
        ("big", Field.TYPE_UINT64, ""),
        ("share", Field.TYPE_FLOAT, ""),
        ("is_gift", Field.TYPE_BOOL, ""),
    ], 1):  # fmt: skip
        parcel.field.add(name=name, number=number, type=kind, type_name=of or None, label=ONE)
    content = descriptor_set(SHOP, file)
    text = SOURCE.replace('"avro"', '"protobuf"') + 'message = "p.Parcel"\n' + VIEW
    [view] = parse_views(
        f'{text}key = "weight"\nselect = "coalesce(order.note, \'\')"', read=lambda _: content
    ).views
    assert view.derivation is not None
    assert dict(view.derivation.fields) == {
        "order__order_id": LONG.or_null(),
        "order__price": DOUBLE.or_null(),
        "order__note": STRING.or_null(),
        "order__status": STRING.or_null(),
        "order__at": TIME.or_null(),
        "weight": integer(0, 2**32 - 1),
        "share": DOUBLE,
        "is_gift": BOOLEAN,
    }
    assert view.derivation.schema == ValueSchema("protobuf", content, "p.Parcel")
    with pytest.raises(ConfigurationError, match="is not a message type of the file; it"):
        parse_views(
            text.replace("Parcel", "No") + 'key = "weight"\ncount = true', read=lambda _: content
        )


JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id", "size", "at", "home", "price"],
    "properties": {
        "id": {"type": "string"},
        "size": {"type": "integer", "minimum": 0, "maximum": 99},
        "total": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "paid": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
        "at": {"type": "string", "format": "date-time"},
        "home": {"$ref": "#/definitions/address"},
        "parent": {"$ref": "#"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "mixed": {"type": ["string", "integer"]},
        "not-a-name": {"type": "string"},
        "lost": {"$ref": "#/definitions/nothing"},
    },
    "definitions": {
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "floor": {"type": "integer"}},
            "required": ["city"],
        }
    },
}


def test_a_json_schema_declares_its_fields() -> None:
    [view] = parse_views(
        '[sources.orders]\nformat = "json"\nschema = "order.json"\nvalue_schema = "confluent"\n'
        f'{VIEW}where = "home.floor > 1"\nkey = "home.city"\nlatest = "at"',
        read=lambda _: json.dumps(JSON_SCHEMA).encode(),
    ).views
    assert view.derivation is not None
    assert dict(view.derivation.fields) == {  # without the schema within itself
        "id": STRING,
        "size": integer(0, 99),
        "total": LONG.or_null(),
        "price": DOUBLE.or_null(),
        "paid": BOOLEAN.or_null(),
        "at": TIME,
        "home__city": STRING,
        "home__floor": LONG.or_null(),
    }
    assert view.derivation.schema is None
    assert view.derivation.rows == RowRule(None, False, is_framed=True)


def test_a_view_may_declare_the_schema_itself() -> None:
    inline = derivation(
        '[views.x.derive]\nfrom = "orders"\nformat = "avro"\nschema = "order.avsc"\n'
        'key = "id"\ncount = true'
    )
    named = derivation(f'{SOURCE}{VIEW}key = "id"\ncount = true')
    assert inline == named
    assert inline.written == named.written
    assert inline.schema == ValueSchema("avro", FILES["order.avsc"].encode())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[sources.orders]\nformat = "avro"\n', "[sources.orders]: schema is missing"),
        (SOURCE.replace("order.avsc", "no.avsc"), "schema: no.avsc: cannot read the file"),
        (SOURCE.replace("order.avsc", "bad.avsc"), "schema: bad.avsc: not a supported Avro schema"),
        (SOURCE.replace("order.avsc", "text.avsc"), "text.avsc: it is not the schema of a record"),
        (f'{SOURCE}fields = {{ a = "int" }}\n', 'fields: not with format = "avro"'),
        (f'{SOURCE}unwrap = "other"\n', "unwrap: unknown value 'other'"),
        (f'{SOURCE}value_schema = "x"\n', "value_schema: unknown value 'x'"),
        (SOURCE.replace('"avro"', '"text"'), 'schema: only with format = '),
        (SOURCE.replace("order.avsc", "text.avsc").replace('"avro"', '"json"'),
         "text.avsc: it is not the schema of an object with properties"),
        (SOURCE.replace("order.avsc", "bad.avsc").replace('"avro"', '"json"'),
         "bad.avsc: not JSON: "),
        (SOURCE.replace('"avro"', '"protobuf"'), "[sources.orders]: message is missing: message"),
        (f'{SOURCE}message = "shop.Order"\n', 'message: only with format = "protobuf"'),
        (f"{SOURCE}{VIEW}key = \"tags\"\ncount = true\n", "key: unknown field tags; known: id, s"),
        (f'{SOURCE}{VIEW}key = "id"\ncount = true\njoin.home = {{ from = "h", on = "id", '
         'fields = { city = "string" } }\n', "join.home: is already the name of a record"),
    ],
)  # fmt: skip
def test_mistakes(text: str, message: str) -> None:
    views = "" if VIEW in text else f'{VIEW}key = "record_offset"\ncount = true\n'
    assert message in error(text + views)


REGISTERED = '[sources.orders]\nformat = "avro"\n'


def test_a_source_without_a_file_names_the_command_that_writes_it() -> None:
    views = f'{VIEW}key = "id"\ncount = true\n'
    text = error(f'{REGISTERED}topic = "shop.orders"\n{views}')
    assert "[sources.orders]: schema is missing: `queryable sources orders --save` writes" in text
    assert "orders.avsc, with the newest schema of shop.orders-value in the registry" in text
    text = error(f'{REGISTERED}subject = "shop.Order"\n{views}')
    assert "the newest schema of shop.Order in" in text
    text = error(REGISTERED.replace("avro", "json") + views)
    assert "writes orders.schema.json" in text
    assert "Or declare fields" in text
    assert "orders.desc" in error(REGISTERED.replace("avro", "protobuf") + views)
    for wrong in ("subject = 1\n", 'fields = { a = "int" }\nsubject = "x"\n'):
        assert "subject" in error(f"{SOURCE.replace('avro', 'json')}{wrong}{views}")


def test_a_file_with_the_name_of_the_source_is_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same view as one that names the file, so the checkpoint continues."""
    monkeypatch.setitem(FILES, "orders.avsc", FILES["order.avsc"])
    named = derivation(f'{SOURCE.replace("order.avsc", "orders.avsc")}{VIEW}key = "id"')
    default = derivation(f'{REGISTERED}subject = "anything"\n{VIEW}key = "id"')
    assert default == named
    assert default.written == named.written
    assert "subject" not in dict(default.written)


def envelope(row: Any) -> dict[str, Any]:
    """The schema of a change, as Debezium writes it."""
    return {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", row.get("name", row)], "default": None},
            {"name": "op", "type": "string"},
        ],
    }


CHANGE = f'{SOURCE}value_schema = "confluent"\nunwrap = "debezium"\nkind = "table"\n'
ROW = {
    **ADDRESS,
    "fields": [*ADDRESS["fields"], {"name": "home", "type": {**ADDRESS, "name": "B"}}],
}


def test_a_change_in_avro_declares_the_fields_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILES, "order.avsc", json.dumps(envelope(ROW)))
    found = derivation(f'{CHANGE}{VIEW}key = "record_key"\nwhere = "home.city = city"\n')
    fields = {"city": STRING, "floor": INT.or_null(), "home__city": STRING}
    fields |= {"home__floor": INT.or_null()}
    assert dict(found.fields) == fields
    assert dict(found.paths) == {"home__city": ("home", "city"), "home__floor": ("home", "floor")}
    assert found.rows == RowRule("debezium"), "the schema says whether values have a frame"
    assert found.schema is not None
    assert found.schema.is_framed
    monkeypatch.setitem(FILES, "order.avsc", json.dumps(ROW))  # after ExtractNewRecordState
    assert dict(derivation(f'{CHANGE}{VIEW}key = "record_key"').fields) == fields
    monkeypatch.setitem(FILES, "order.avsc", json.dumps(envelope({"type": "string"})))
    assert "does not declare the fields of the row in after" in error(
        f'{CHANGE}{VIEW}key = "record_key"'
    )


def test_a_change_in_json_and_in_protobuf_declares_the_fields_of_its_row() -> None:
    address = JSON_SCHEMA["definitions"]["address"]  # type: ignore[index]
    change = {
        "properties": {"op": {"type": "string"}, "after": {"$ref": "#/definitions/row"}},
        "definitions": {"row": {"oneOf": [{"type": "null"}, address]}},
    }
    text = CHANGE.replace('"avro"', '"json"').replace('value_schema = "confluent"\n', "")
    [view] = parse_views(
        f'{text}{VIEW}key = "record_key"', read=lambda _: json.dumps(change).encode()
    ).views
    assert view.derivation is not None
    assert dict(view.derivation.fields) == {"city": STRING, "floor": LONG.or_null()}
    assert view.derivation.rows == RowRule("debezium")

    file = descriptor_pb2.FileDescriptorProto(name="change.proto", package="p", syntax="proto3")
    file.dependency.append("shop.proto")
    message = file.message_type.add(name="Change")
    message.field.add(name="op", number=1, type=Field.TYPE_STRING, label=ONE)
    message.field.add(name="after", number=2, type=Field.TYPE_MESSAGE, type_name=".shop.Order",
                      label=ONE)  # fmt: skip
    content = descriptor_set(SHOP, file)
    text = CHANGE.replace('"avro"', '"protobuf"') + 'message = "p.Change"\n'
    [view] = parse_views(f'{text}{VIEW}key = "record_key"', read=lambda _: content).views
    assert view.derivation is not None
    assert dict(view.derivation.fields)["order_id"] == LONG, "not null, as in the row itself"


JOINED = """
[views.x.derive]
from = "events"
fields = { customer = "int" }
key = "record_offset"
select = { city = "o.home.city", price = "o.price" }
"""


def test_a_join_with_a_schema_has_its_fields() -> None:
    text = f'{SOURCE}value_schema = "confluent"\nkind = "table"\nkey_fields = ["id"]\n{JOINED}'
    named = derivation(f'{text}join.o = {{ from = "orders", on = "customer" }}\n')
    [join] = named.joins
    assert join.schema == ValueSchema("avro", FILES["order.avsc"].encode(), is_framed=True)
    assert (join.rows, join.key_fields) == (None, ("id",))
    assert dict(join.paths)["home__city"] == ("home", "city")
    assert "o.home__city" in join.names
    inline = derivation(
        f'{JOINED}join.o = {{ from = "orders", on = "customer", format = "avro", '
        'schema = "order.avsc", value_schema = "confluent", key_fields = ["id"] }\n'
    )
    assert inline == named


def test_a_stream_of_avro_may_be_joined_with_another_one() -> None:
    found = derivation(
        f'{SOURCE}time = "at"\n[views.x.derive]\nfrom = "events"\n'
        'fields = { id = "string", at = "time" }\ntime = "at"\n'
        'key = "concat(id, \'-\', o.id)"\nselect = "o.home.city"\n'
        'join.o = { from = "orders", on = "id", key = "id", within = "1h" }\n'
    )
    assert found.pairs is not None
    assert found.pairs.schema == ValueSchema("avro", FILES["order.avsc"].encode())
    stream = found.pairs.stream
    assert stream is not None
    assert stream.schema == found.pairs.schema
    assert "home__city" in str(stream.require)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('key_fields = "id"\n', "key_fields: it must be a list of 1 to 16 different names"),
        ("key_fields = []\n", "key_fields: it must be a list"),
    ],
)
def test_mistakes_in_keys(text: str, message: str) -> None:
    assert message in error(f'{SOURCE}{text}{VIEW}key = "id"\ncount = true\n')


def test_a_text_has_no_keys_with_fields() -> None:
    text = '[sources.orders]\nformat = "text"\nkey_fields = ["id"]\n'
    assert "key_fields: only with fields" in error(f'{text}{VIEW}key = "text"\ncount = true\n')
    text = '[sources.orders]\nformat = "text"\nkind = "table"\n'
    joined = f'{text}{JOINED}join.o = {{ from = "orders", on = "customer" }}\n'
    assert "a join needs a source with fields = { … }, or a schema" in error(joined)
    with_text = f'{JOINED}join.o = {{ from = "orders", on = "customer", format = "text" }}\n'
    assert "join.o.format: a join needs fields" in error(with_text)
