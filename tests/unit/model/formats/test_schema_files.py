"""Files with schemas of a registry: the same fields as the registry's schemas, without others."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest
from fastavro.schema import parse_schema
from google.protobuf import descriptor_pb2

from model.formats.format import Origin
from model.formats.registry import FORMATS
from tests.support.in_process.protobuf_examples import SHOP, Field, serialized

ORIGIN = Origin("orders-value", 3, 17)
MONEY = {
    "type": "record",
    "name": "cash.Money",
    "fields": [{"name": "cents", "type": "long"}],
}
ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "shop.parts",
    "doc": "where",
    "fields": [
        {"name": "city", "type": "string"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "next", "type": ["null", "Address"], "default": None},
        {"name": "rent", "type": "cash.Money"},
    ],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "kind", "type": "shop.parts.Kind"},
        {"name": "home", "type": "shop.parts.Address"},
        {"name": "others", "type": {"type": "array", "items": "shop.parts.Address"}},
        {"name": "total", "type": ["null", "cash.Money"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def file(name: str, text: str, *references: tuple[str, str]) -> bytes:
    return FORMATS[name].schema_file(text, references, ORIGIN)


def fields(name: str, content: bytes, message: str = "") -> dict[str, str]:
    declared = FORMATS[name].declared_fields(content, message)
    return {".".join(path): str(type_.kind) for path, type_ in declared}


def test_an_avro_file_has_the_types_of_other_schemas_once() -> None:
    """fastavro reads it, which refuses a type that is defined twice, or not at all."""
    content = file("avro", json.dumps(ORDER), ("a", json.dumps(MONEY)), ("b", json.dumps(ADDRESS)))
    document = json.loads(content)
    parse_schema(document)
    assert _fingerprint(document) == _fingerprint(_inlined_by_hand())
    assert document["fields"][1]["type"]["doc"] == "where"
    assert fields("avro", content).keys() == {"kind", "home.city", "home.kind", "home.rent.cents",
                                              "total.cents", "at"}  # fmt: skip


def _inlined_by_hand() -> dict[str, Any]:
    kind = {**ADDRESS["fields"][1]["type"], "namespace": "shop.parts"}  # type: ignore[index]
    address = json.loads(json.dumps(ADDRESS))
    address["fields"][1]["type"] = "shop.parts.Kind"
    address["fields"][3]["type"] = MONEY
    order = json.loads(json.dumps(ORDER))
    order["fields"][0]["type"] = kind
    order["fields"][1]["type"] = address
    return dict(order)


def _fingerprint(document: Any) -> str:
    canonical = fastavro.schema.to_parsing_canonical_form(document)
    return fastavro.schema.fingerprint(canonical, "SHA-256")


def test_a_file_says_which_version_it_has() -> None:
    contents = {
        "avro": file("avro", json.dumps(MONEY)),
        "json": file("json", '{"type":"object","properties":{"a":{"type":"string"}}}'),
        "protobuf": file("protobuf", serialized(SHOP)),
    }
    for name, content in contents.items():
        assert FORMATS[name].origin(content) == ORIGIN
        assert FORMATS[name].origin(b"{}") is None
        assert FORMATS[name].origin(b"\xff[") is None
    assert contents["avro"].decode().splitlines()[1] == '  "type": "record",', "one member a line"
    again = file("avro", contents["avro"].decode())
    assert again == contents["avro"], "a schema that was registered from a file"


@pytest.mark.parametrize("text", ['"string"', '["null", "string"]'])
def test_a_schema_without_fields_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="declares no fields"):
        file("avro", text)
    with pytest.raises(ValueError, match="not a supported Avro schema"):
        file("avro", '{"type": "record", "name": "X", "fields": [{"name": "a"}]}')


def test_a_json_schema_has_its_references_within_it() -> None:
    order = {
        "properties": {
            "home": {"$ref": "shop/address.json"},
            "city": {"$ref": "shop/address.json#/definitions/city"},
            "id": {"$ref": "#/definitions/id"},
        },
        "definitions": {"id": {"type": "integer"}},
    }
    address = {
        "properties": {"city": {"$ref": "#/definitions/city"}},
        "definitions": {"city": {"type": "string"}},
    }
    content = file("json", json.dumps(order), ("shop/address.json", json.dumps(address)))
    assert fields("json", content) == {
        "home.city": "string",
        "city": "string",
        "id": "whole number",
    }


def test_a_protobuf_file_has_its_imports() -> None:
    parcel = descriptor_pb2.FileDescriptorProto(name="parcel.proto", package="p", syntax="proto3")
    parcel.dependency.append("shop.proto")
    message = parcel.message_type.add(name="Parcel")
    message.field.add(name="order", number=1, type=Field.TYPE_MESSAGE, type_name=".shop.Order",
                      label=Field.LABEL_OPTIONAL)  # fmt: skip
    content = file("protobuf", serialized(parcel), ("shop.proto", serialized(SHOP)))
    assert "order.order_id" in fields("protobuf", content, "p.Parcel")
