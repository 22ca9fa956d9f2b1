"""Avro: what fastavro writes is read, said in JSON, and found again by that JSON."""

import base64
import datetime as dt
import decimal
import json
import math
import uuid
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.formats.avro.codecs import AvroCodec, avro_codec
from model.formats.avro.schema import AvroSchema
from model.formats.schemas import ConfluentCodec, SchemaNotYet
from model.problems import Unavailable
from tests.support.examples import examples
from tests.support.in_process.avro_examples import ORDER, FakeSchemas, binary, framed

TEXT = st.text('ab" \\\n\0é\uffff\U0010ffff', max_size=5)
FLOATS = {"double": st.floats(), "float": st.floats(width=32)}
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "string": TEXT,
    "bytes": st.binary(max_size=5),
    **FLOATS,
}


def said(kind: str, value: Any) -> Any:
    """What JSON is to say of a value."""
    if kind in FLOATS and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if kind == "bytes":
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    return value


@st.composite
def schemas_and_values(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any, Any]:
    """A schema, a value of it for fastavro, and what JSON is to say of the value."""
    kind = draw(st.sampled_from([*PRIMITIVES, "enum", "fixed", "array", "map", "record", "union"]))
    if not depth and kind not in PRIMITIVES:
        kind = "long"
    if kind in PRIMITIVES:
        value = draw(PRIMITIVES[kind])
        return kind, value, said(kind, value)
    name = f"N{draw(st.uuids()).hex}"
    if kind == "enum":
        symbol = draw(st.sampled_from("ABC"))
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}, symbol, symbol
    if kind == "fixed":
        raw = draw(st.binary(min_size=3, max_size=3))
        return {"type": "fixed", "name": name, "size": 3}, raw, said("bytes", raw)
    if kind == "union":
        schema, value, document = draw(schemas_and_values(depth - 1))
        if isinstance(schema, list) or schema == "null":
            return schema, value, document
        if draw(st.booleans()):
            return ["null", schema], None, None
        return ["null", schema], value, document
    if kind == "record":
        fields = draw(st.lists(schemas_and_values(depth - 1), min_size=1, max_size=3))
        names = [f"f{i}" for i in range(len(fields))]
        schema = {
            "type": "record",
            "name": name,
            "fields": [{"name": n, "type": f[0]} for n, f in zip(names, fields, strict=True)],
        }
        return schema, *({n: f[i] for n, f in zip(names, fields, strict=True)} for i in (1, 2))
    schema, value, document = draw(
        schemas_and_values(depth - 1).filter(lambda e: binary(e[0], e[1]))
    )
    count = draw(st.integers(0, 2))
    if kind == "array":
        return {"type": "array", "items": schema}, [value] * count, [document] * count
    names = [f"k{i}" for i in range(count)]
    return {"type": "map", "values": schema}, *(dict.fromkeys(names, v) for v in (value, document))


def same(a: Any, b: Any) -> bool:
    return json.dumps(a) == json.dumps(b)


@settings(max_examples=examples(120))
@given(schemas_and_values())
def test_from_record_bytes_to_json_and_back(example: tuple[Any, Any, Any]) -> None:
    schema, value, document = example
    raw = binary(schema, value)
    codec = AvroCodec(AvroSchema(json.dumps(schema)))
    codec.check(raw)
    assert codec.from_store(codec.to_store(raw)) == raw
    written = codec.to_json(raw)
    assert same(json.loads(written), document)
    if "NaN" not in written.decode():  # whose bits are many
        assert codec.from_text(written) == raw
    with pytest.raises(ValueError, match="trailing bytes"):
        codec.check(raw + b"\0")
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    assert codec.schema.fingerprint == fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")


UTC = dt.UTC


@pytest.mark.parametrize(
    ("schema", "value", "document"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
         decimal.Decimal("-0.05"), '"-0.05"'),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, decimal.Decimal(128),
         '"128"'),
        ({"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9,
          "scale": 3}, decimal.Decimal("-12.5"), '"-12.500"'),
        ({"type": "int", "logicalType": "date"}, dt.date(1969, 12, 31), '"1969-12-31"'),
        ({"type": "int", "logicalType": "time-millis"}, dt.time(23, 59, 58, 7000),
         '"23:59:58.007"'),
        ({"type": "long", "logicalType": "time-micros"}, dt.time(0, 0, 1, 7), '"00:00:01.000007"'),
        ({"type": "long", "logicalType": "timestamp-millis"},
         dt.datetime(2013, 12, 29, 0, 3, tzinfo=UTC), '"2013-12-29T00:03:00.000Z"'),
        ({"type": "long", "logicalType": "timestamp-micros"},
         dt.datetime(1903, 1, 2, 3, 4, 5, 6, tzinfo=UTC), '"1903-01-02T03:04:05.000006Z"'),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1, '"1970-01-01T00:00:00.000000001Z"'),
        ({"type": "long", "logicalType": "local-timestamp-millis"},
         dt.datetime(2400, 2, 29, 1), '"2400-02-29T01:00:00.000"'),
        # Java's greatest and least: beyond the years of Python
        ({"type": "long", "logicalType": "timestamp-millis"}, 2**63 - 1,
         '"+292278994-08-17T07:12:55.807Z"'),
        ({"type": "long", "logicalType": "timestamp-millis"}, -(2**63),
         '"-292275055-05-16T16:47:04.192Z"'),
        ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=5),
         '"00000000-0000-0000-0000-000000000005"'),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, uuid.UUID(int=5).bytes,
         '"00000000-0000-0000-0000-000000000005"'),
        ("long", 2**53 + 1, "9007199254740993"),
        ("long", -(2**63), "-9223372036854775808"),
        ("double", math.nan, '"NaN"'),
        ("double", -math.inf, '"-Infinity"'),
        ("float", math.inf, '"Infinity"'),
        ({"type": "int", "logicalType": "nobody-knows"}, 7, "7"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("within", ["itself", "union"])
def test_values_that_json_has_no_form_for(
    schema: Any, value: Any, document: str, within: str
) -> None:
    raw = binary(schema, value)
    if within == "union":
        schema, raw = ["null", schema], b"\2" + raw
    read = AvroSchema(json.dumps(schema))
    assert read.to_json(raw).decode() == document
    if value == value:
        assert read.from_json(document.encode()) == raw


@pytest.mark.parametrize(
    ("logical", "number", "text"),
    [
        ("int-time-millis", 86_400_000, "24:00:00.000"),
        ("long-time-micros", 86_399_999_999, "23:59:59.999999"),
        # PostgreSQL's greatest time of day, and MySQL's greatest and least TIME
        ("long-time-micros", 86_400_000_000, "24:00:00.000000"),
        ("long-time-micros", 3_020_399_000_000, "838:59:59.000000"),
        ("long-time-micros", -3_020_399_000_000, "-838:59:59.000000"),
        ("int-time-millis", -1, "-00:00:00.001"),
        ("int-time-millis", -(2**31), "-596:31:23.648"),
        ("long-time-micros", -(2**63), "-2562047788:00:54.775808"),
        ("long-time-micros", 2**63 - 1, "2562047788:00:54.775807"),
    ],
)
def test_a_number_beyond_a_day_is_a_time_too(logical: str, number: int, text: str) -> None:
    """Avro allows every number, and a dead letter would lose all other fields."""
    base, _, name = logical.partition("-")
    schema = AvroSchema(json.dumps({"type": base, "logicalType": name}))
    raw = binary(base, number)
    schema.check(raw)
    assert json.loads(schema.to_json(raw)) == text
    assert schema.from_json(json.dumps(text).encode()) == raw


@pytest.mark.parametrize(
    ("text", "why"),
    [("23:60:00", "not a time"), ("1:00:00", "not a time"), ("597:00:00", "range")],
)
def test_text_that_is_no_time(text: str, why: str) -> None:
    schema = AvroSchema('{"type": "int", "logicalType": "time-millis"}')
    with pytest.raises(ValueError, match=why):
        schema.from_json(json.dumps(text).encode())


def test_a_clock_has_one_day() -> None:
    schema = AvroSchema('{"type": "long", "logicalType": "timestamp-millis"}')
    with pytest.raises(ValueError, match="not a timestamp"):
        schema.from_json(b'"2013-12-29T24:00:00.000Z"')


@pytest.mark.parametrize(
    ("schema", "raw"),
    [
        ("string", b"\x04\xff\xff"),
        ("string", b"\x06ab"),
        ("long", b""),
        ("double", b"\0" * 7),
        (["null", "long"], b"\x04\x02"),
        (ORDER, b"\0"),
    ],
)
def test_bytes_that_are_not_of_the_schema(schema: Any, raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        AvroSchema(json.dumps(schema)).check(raw)


@pytest.mark.parametrize(
    ("schema", "text", "why"),
    [
        ("long", b"1.0", "whole number"),
        ("long", b"9223372036854775808", "range"),
        ("int", b"2147483648", "range"),
        ("long", b"true", "whole number"),
        ("long", b"x", "not JSON"),
        ("boolean", b"1", "true or false"),
        ("string", b"1", "not text"),
        ("bytes", b'"a+b/"', r"."),
        ("double", b'"nan"', "NaN"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b'"B"', "not a symbol of the enum: A"),
        ({"type": "fixed", "name": "F", "size": 2}, b'"YQ"', "1 bytes, not 2"),
        ({"type": "int", "logicalType": "date"}, b'"2013-02-30"', r"day"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, b'"0.1"', "decimal"),
        (ORDER, b'{"id": 1}', "exactly the fields"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, b'"A"', "twice"),
        (["string", "bytes"], b'"YQ"', "more than one branch"),
        (["int", "long"], b"1", "more than one branch"),
        (["null", "int"], b'"a"', "no branch"),
    ],
)
def test_json_that_is_no_key(schema: Any, text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AvroSchema(json.dumps(schema)).from_json(text)


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}


@pytest.mark.parametrize(("levels", "good"), [(0, True), (99, True), (101, False), (10**6, False)])
def test_what_is_nested_too_deep_is_refused(levels: int, good: bool) -> None:
    """fastavro's compiled reader ends the process with a segmentation fault."""
    schema, raw = AvroSchema(json.dumps(NODE)), b"\2" * levels + b"\0"
    if good:
        schema.check(raw)
        assert json.loads(schema.to_json(raw))
    else:
        with pytest.raises(ValueError, match=r"."):
            schema.check(raw)


def test_a_tree() -> None:
    tree = {"type": "record", "name": "Tree", "fields": [
        {"name": "value", "type": "int"},
        {"name": "below", "type": {"type": "array", "items": "Tree"}},
    ]}  # fmt: skip
    value = {"value": 1, "below": [{"value": 2, "below": []}, {"value": 3, "below": []}]}
    schema = AvroSchema(json.dumps(tree))
    raw = binary(tree, value)
    assert json.loads(schema.to_json(raw)) == value
    assert schema.from_json(json.dumps(value).encode()) == raw


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "3",
        '{"type":"what"}',
        '{"type":"array","items":"null"}',
        '{"type":"array","items":{"type":"record","name":"R","fields":[]}}',
        '{"type":"array","items":{"type":"fixed","name":"F","size":0}}',
        '{"type":"array","items":' * 200 + '"int"' + "}" * 200,
    ],
)
def test_schemas_that_are_none_or_cannot_be_served(text: str) -> None:
    with pytest.raises(ValueError, match="not a supported Avro schema"):
        AvroSchema(text)


def test_a_schema_that_uses_another() -> None:
    using = {"type": "record", "name": "Two", "fields": [
        {"name": name, "type": "shop.Order"} for name in ("a", "b")
    ]}  # fmt: skip
    schema = AvroSchema(json.dumps(using), [json.dumps(ORDER)])
    order = binary(ORDER, {"id": 1, "price": 1.5})
    assert json.loads(schema.to_json(order * 2))["b"] == {"id": 1, "price": 1.5, "note": None}
    with pytest.raises(ValueError, match=r"Order"):
        AvroSchema(json.dumps(using))


# framed


def test_a_framed_record() -> None:
    codec = ConfluentCodec("avro", FakeSchemas(id7=ORDER, id8="string"))
    raw = framed(7, ORDER, {"id": 2**62, "price": math.inf})
    codec.check(raw)
    assert codec.to_json(raw) == b'{"id":4611686018427387904,"price":"Infinity","note":null}'
    avro = codec.without_frame(raw)
    assert (avro.raw, avro.schema_id) == (raw[5:], 7)
    assert codec.to_json(framed(8, "string", "x")) == b'"x"'


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "without Confluent's framing"),
        (b"\0\0\0\0", "without Confluent's framing"),
        (b"\1\0\0\0\7\2", "without Confluent's framing"),
        (b"\0\0\0\0\7\2\2", "schema 7: "),
        (b"\0\0\0\0\x09\2", "knows no schema"),
        (b"\0\x80\0\0\0\2", "schema 2147483648: ids of schemas have at most 31 bits"),
    ],
)
def test_records_that_are_not_framed_avro(raw: bytes, why: str) -> None:
    codec = ConfluentCodec("avro", FakeSchemas(id7="int", id9=None))
    with pytest.raises(ValueError, match=why):
        codec.probe(raw)
    with pytest.raises(ValueError, match=why):
        codec.check(raw)


def test_a_schema_that_is_not_there_yet() -> None:
    schemas = FakeSchemas()
    codec = avro_codec("confluent", schemas)
    for ask in (codec.check, codec.to_json):
        with pytest.raises(SchemaNotYet) as error:
            ask(framed(7, "int", 1))
        assert (error.value.status, error.value.code) == (503, "schema-unavailable")
        assert not error.value.over
    schemas.by_id[7] = None
    assert error.value.over, "that there is none is an answer too"
    with pytest.raises(Unavailable, match="knows no schema"):
        codec.to_json(framed(7, "int", 1))  # it was there when the record came


def test_a_framed_key_cannot_be_text() -> None:
    with pytest.raises(ValueError, match="encoding=base64url"):
        avro_codec("confluent", FakeSchemas()).from_text(b"1")
