"""Keys and values in format `protobuf`: bare messages of a descriptor set, and framed ones."""

from __future__ import annotations

import base64
import json
import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from model.formats.base64url import to_base64url
from model.formats.codec import Codec
from model.formats.protobuf import bounds
from model.formats.protobuf.codecs import definition, parsed, protobuf_codec
from model.formats.protobuf.schema import ProtobufFile, from_descriptor_set, from_registry
from model.formats.registry import FORMATS
from model.formats.schemas import Schema, SchemaNotYet
from model.problems import ConfigurationError
from model.views import View
from model.views_file import parse_views
from tests.support.in_process.avro_examples import FakeSchemas
from tests.support.in_process.protobuf_examples import (
    DESCRIPTORS,
    SHOP,
    Order,
    descriptor_set,
    framed,
    key,
    nested,
    order,
    packed,
    serialized,
)

FILE = from_descriptor_set(DESCRIPTORS)
EMPTY = {"orderId": "0", "price": 0.0, "tags": [], "status": "NEW", "raw": "", "lines": [],
         "counts": {}, "statuses": []}  # fmt: skip


def codec(message: str = "shop.Order") -> Codec:
    return protobuf_codec(definition(message, FILE), None)


ORDERS = codec()


class Schemas(FakeSchemas):
    """Protobuf files by id."""

    def schema(self, schema_id: int) -> Schema:
        if schema_id not in self.by_id:
            raise SchemaNotYet(schema_id, self)
        schema: Schema = self.by_id[schema_id]
        return schema


# bare


@pytest.mark.parametrize(
    ("fields", "document"),
    [
        ({}, {}),
        ({"order_id": 2**63 - 1}, {"orderId": "9223372036854775807"}),
        ({"order_id": -1, "price": 0.1}, {"orderId": "-1", "price": 0.1}),
        ({"price": math.inf}, {"price": "Infinity"}),
        ({"price": math.nan}, {"price": "NaN"}),
        ({"note": ""}, {"note": ""}),
        ({"note": "東京\0"}, {"note": "東京\0"}),
        ({"raw": b"\0\xff\xfe"}, {"raw": "AP/+"}),
        ({"tags": ["", "a"]}, {"tags": ["", "a"]}),
        ({"status": 1}, {"status": "A_VERY_LONG_NAME_OF_A_STATUS_THAT_TAKES_ONE_BYTE"}),
        ({"status": 77}, {"status": 77}),
        ({"lines": [{}, {"count": 3}]}, {"lines": [{"count": 0}, {"count": 3}]}),
        ({"counts": {"a": 1, "": 0}}, {"counts": {"": 0, "a": 1}}),
        (
            {"at": {"seconds": 1388275380, "nanos": 5000}},
            {"at": "2013-12-29T00:03:00.000005Z"},
        ),
        ({"any": packed("x/shop.Order", b"")}, {"any": {"@type": "x/shop.Order", **EMPTY}}),
    ],
)
def test_messages_in_json(fields: dict[str, object], document: dict[str, object]) -> None:
    raw = order(**fields)
    ORDERS.check(raw)
    assert json.loads(ORDERS.to_json(raw)) == {**EMPTY, **document}
    text, is_base64 = ORDERS.json_to_text(json.loads(ORDERS.to_json(raw)), b"")
    assert is_base64
    assert Order.FromString(ORDERS.from_text(text)) == Order.FromString(raw) or math.isnan(
        Order.FromString(raw).price
    )


_MESSAGES = st.builds(
    Order,
    order_id=st.integers(-(2**63), 2**63 - 1),
    price=st.floats(allow_nan=False),
    note=st.none() | st.text(),
    tags=st.lists(st.text(), max_size=5),
    status=st.integers(-5, 5),
    raw=st.binary(max_size=50),
    lines=st.lists(st.fixed_dictionaries({"count": st.integers(-(2**31), 2**31 - 1)}), max_size=5),
    counts=st.dictionaries(st.text(max_size=5), st.integers(-9, 9), max_size=5),
)


@given(_MESSAGES)
def test_round_trips(message: Order) -> None:
    raw = message.SerializeToString()
    ORDERS.probe(raw)
    document = orjson.loads(ORDERS.to_json(raw))
    assert MessageToDict(message, always_print_fields_with_no_presence=True) == document
    text, is_base64 = ORDERS.json_to_text(document, b"")
    assert is_base64
    assert Order.FromString(ORDERS.from_text(text)) == message
    assert ORDERS.from_store(ORDERS.to_store(raw)) == raw


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_dead_letter(raw: bytes) -> None:
    with suppress(ValueError):
        ORDERS.check(raw)
        orjson.loads(ORDERS.to_json(raw))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x80", "not a shop.Order"),
        (b"\x1a\x05ab", "not a shop.Order"),
        (b"\x1a\x01\xff", "not a shop.Order|not representable"),
        (nested(101), "not a shop.Order|more than 100 levels"),
        (order(any=packed("x/shop.Missing", b"")), "an Any of type shop.Missing"),
        (order(any=packed("x/shop.Order", b"\x80")), "an Any of type shop.Order"),
        (order(at={"seconds": 10**15}), "not representable"),
    ],
)
def test_malformed_records(raw: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ORDERS.check(raw)


def test_deep_messages() -> None:
    ORDERS.check(nested(99))
    assert ORDERS.to_json(nested(99)).count(b'"next"') == 99
    raw = b""
    for _ in range(bounds.MAX_DEPTH // 2 + 1):  # each Any is two levels
        raw = order(any=packed("x/shop.Order", raw))
    with pytest.raises(ValueError, match="more than 100 levels"):
        ORDERS.check(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x62\x00" * 3,  # the last of a field counts: no bomb
        order(lines=[{}] * 1000),
    ],
)
def test_repeated_messages(raw: bytes) -> None:
    ORDERS.check(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x3a\x00" * 500_000,  # lines: an empty message of two bytes each
        b"\x6a\x80\x89\x7a" + b"\1" * 2_000_000,  # statuses: names of 50 characters, a byte each
        order(any=packed("x/shop.Order", b"\x3a\x00" * 500_000)),
    ],
    ids=["empty messages", "long names", "in an Any"],
)
def test_bombs_are_dead_letters(raw: bytes) -> None:
    with pytest.raises(ValueError, match="MiB as JSON"):
        ORDERS.check(raw)


@given(_MESSAGES)
def test_the_estimate_is_from_above(message: Order) -> None:
    counter = bounds.Bounds(None)
    left = counter._spend(message, bounds.MAX_JSON_BYTES, bounds.MAX_DEPTH)
    content = 6 * sum(map(len, [message.note, *message.tags, *message.counts])) + 2 * len(
        message.raw
    )
    json_bytes = len(ORDERS.to_json(message.SerializeToString()))
    # characters outside ASCII have up to 4 bytes
    assert json_bytes <= bounds.MAX_JSON_BYTES - left + content


def test_keys_in_urls_and_bodies() -> None:
    keys = codec("shop.Key")
    assert keys.from_text(to_base64url(key(7))) == key(7)
    assert keys.from_text(b"") == b""
    assert keys.from_text(b'{"id":7}') == key(7)
    for text in (b"{", b'{"id":', b'{"no":1}', b"A", b"gA"):
        with pytest.raises(ValueError, match="not"):
            keys.from_text(text)
    assert keys.json_to_text({"id": 7}, b"") == (to_base64url(key(7)), True)
    for value in ({"id": "x"}, {"no": 1}, [], 7, {"id": 2**31}):
        with pytest.raises(ValueError, match=r"not a shop\.Key"):
            keys.json_to_text(value, b"")


# framed


def test_framed_records() -> None:
    framed_orders = protobuf_codec("confluent", Schemas(id7=FILE))
    raw = framed(7, order(order_id=5))
    framed_orders.check(raw)
    assert json.loads(framed_orders.to_json(raw))["orderId"] == "5"
    value = framed_orders.without_frame(raw)
    assert (value.raw, value.schema_id, len(value.fingerprint)) == (order(order_id=5), 7, 16)
    # zigzag: [0] in full, [1], and [0, 0]
    assert json.loads(framed_orders.to_json(framed(7, order(price=1), b"\2\0")))["price"] == 1
    assert framed_orders.to_json(framed(7, key(3), b"\2\2")) == b'{"id":3}'
    assert framed_orders.to_json(framed(7, key(4), b"\4\0\0")) == b'{"count":4}'
    assert framed_orders.from_text(to_base64url(raw)) == raw
    with pytest.raises(ValueError, match="schema id"):
        framed_orders.json_to_text({}, b"{}")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "without Confluent's framing"),
        (framed(7, b"", b""), "schema 7: without message indexes"),
        (framed(7, b"", b"\2"), "without message indexes"),
        (framed(7, b"", b"\2\1"), "a negative message index"),
        (framed(7, b"", b"\1"), "-1 message indexes"),
        (framed(7, b"", b"\xfe\x01"), "127 message indexes"),
        (framed(7, b"", b"\2\4"), "no message type at index 2"),
        (framed(7, b"", b"\4\2\0"), "no message type at index 1/0"),
        (framed(7, b"", b"\xff\xff\xff\xff\xff\x0f"), "more than 5 bytes"),
        (framed(7, b"\x80"), "schema 7: not a shop.Order"),
        (framed(8, b""), "schema 8: the schema is avro, not protobuf"),
    ],
)
def test_malformed_frames(raw: bytes, why: str) -> None:
    schemas = Schemas(id7=FILE, id8=FORMATS["avro"].parse_file(b'"int"'))  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=why):
        protobuf_codec("confluent", schemas).check(raw)


def test_an_unknown_schema_id_waits() -> None:
    with pytest.raises(SchemaNotYet):
        protobuf_codec("confluent", Schemas()).check(framed(7, b""))


# schemas


def test_files_of_a_registry() -> None:
    money = descriptor_pb2.FileDescriptorProto(name="default", package="money", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type=5, label=1)
    bill = descriptor_pb2.FileDescriptorProto(name="default", package="bill", syntax="proto3")
    # the last one has options only, and a registry has it built in
    bill.dependency.extend(["a/money.proto", "google/protobuf/empty.proto", "confluent/meta.proto"])
    bill.public_dependency.append(2)
    field = bill.message_type.add(name="Bill").field.add(name="sum", number=1, type=11, label=1)
    field.type_name = ".money.Money"
    file = from_registry(serialized(bill), [("a/money.proto", serialized(money))])
    assert file.to_json(b"\0\x0a\x02\x08\x05") == b'{"sum":{"cents":5}}'
    with pytest.raises(ValueError, match="not supported descriptors"):
        from_registry(serialized(bill), [])
    for text in ('syntax = "proto3";', "AAAA", base64.b64encode(b"\xff").decode()):
        with pytest.raises(ValueError, match="not a"):
            from_registry(text, [])


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"\n\x00", descriptor_set(SHOP)[:-5], b'{"type": "long"}'],
    ids=["empty", "no message", "no name", "cut", "Avro"],
)
def test_files_that_are_no_descriptor_sets(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not a? ?(descriptor set|supported descriptors)"):
        from_descriptor_set(content)


@given(st.binary(max_size=100))
def test_any_bytes_as_a_descriptor_set(content: bytes) -> None:
    with suppress(ValueError):
        assert from_descriptor_set(content).messages


def test_files_that_import_each_other() -> None:
    files = [
        descriptor_pb2.FileDescriptorProto(name=name, dependency=[other])
        for name, other in (("a", "b"), ("b", "a"))
    ]
    with pytest.raises(ValueError, match="not supported descriptors"):
        ProtobufFile(files)


def test_comments_do_not_change_the_definition() -> None:
    commented = descriptor_pb2.FileDescriptorProto()
    commented.CopyFrom(SHOP)
    commented.source_code_info.location.add(leading_comments="new")
    file = from_descriptor_set(descriptor_set(commented))
    assert definition("shop.Order", file) == definition("shop.Order", FILE)
    assert parsed(definition("shop.Key", FILE)).fingerprint != ORDERS.message.fingerprint  # type: ignore[attr-defined]


# views.toml

TOML = """\
[views.orders]
topic = "orders"
key = "protobuf"
key_schema = "shop.desc"
key_message = "shop.Key"
value = "protobuf"
value_schema = "shop.desc"
value_message = "shop.Order"
"""


def read(name: str) -> bytes:
    return {"shop.desc": DESCRIPTORS, "bad.desc": b"\xff"}[name]


def test_a_view() -> None:
    [view] = parse_views(TOML, read=read).views
    assert view.key_codec.to_json(key(7)) == b'{"id":7}'
    assert json.loads(view.value_codec.to_json(b"")) == EMPTY
    assert view.routed_encodings == ("base64url",)
    description = view.description()
    assert len(description["key_schema"]) == len(description["value_schema"]) == 16
    document = view.value_codec.schema_document
    assert document["message"] == "shop.Order"
    again = from_descriptor_set(base64.b64decode(document["descriptors"]))
    assert again.messages == ["shop.Order", "shop.Order.Line", "shop.Key"]
    [other] = parse_views(TOML.replace("shop.Order", "shop.Order.Line"), read=read).views
    assert other.hash != view.hash
    framed_toml = TOML.replace('"shop.desc"', '"confluent"').replace('key_message = "shop.Key"', "")
    framed_toml = framed_toml.replace('value_message = "shop.Order"', "")
    [view] = parse_views(f'{framed_toml}\n[schemas]\nfolder = "s"', read=read).views
    assert (view.key_schema, view.description()["value_schema"]) == ("confluent", "confluent")
    assert isinstance(replace(view, schemas=Schemas()), View)


@pytest.mark.parametrize(
    ("old", "new", "where", "why"),
    [
        ('value_message = "shop.Order"', "", "line 6, [views.orders], value:", "shop.Order.Line"),
        ('"shop.Order"', '"Order"', "line 8, [views.orders], value_message", "shop.Order.Line"),
        ('value_schema = "shop.desc"', "", "line 6, [views.orders], value:", "value_schema is mis"),
        ('"shop.desc"', '"bad.desc"', "line 4, [views.orders], key_schema", "not a descriptor set"),
        ('key_schema = "shop.desc"', 'key_schema = "confluent"', "key_message", "not allowed with"),
        ('key = "protobuf"', 'key = "avro"', "key_message", 'only with key = "protobuf"'),
        ('key = "protobuf"', 'key = "string"', "key_schema", '= "json" or "avro" or "proto'),
    ],
)
def test_a_broken_view(old: str, new: str, where: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_views(TOML.replace(old, new), read=read)
    assert where in str(error.value)
    assert why in str(error.value)


def no_package(name: str) -> None:
    raise ModuleNotFoundError(name)  # as for a name whose first part is no package


@pytest.mark.parametrize("find_spec", [lambda name: None, no_package])
def test_the_extra_is_named_if_it_is_missing(
    find_spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.formats.protobuf.format.find_spec", find_spec)
    with pytest.raises(ConfigurationError, match=r"line 3.*pip install '\.\[protobuf\]'"):
        parse_views(TOML, read=read)
    with pytest.raises(ValueError, match=r"pip install '\.\[protobuf\]'"):
        FORMATS["protobuf"].parse_registered(serialized(SHOP), ())  # type: ignore[attr-defined]
