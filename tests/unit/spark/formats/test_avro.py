"""Avro records as columns: bare, and framed with the schema of their writer. Needs no session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.formats.schema_registry import SchemaSourceUnavailable
from spark.errors import JobError
from spark.event_time.bounds import EventTimeBounds
from spark.formats import registry as registry_module
from spark.formats.avro import AvroFormat
from spark.formats.batches import Rules, malformed, well_formed
from spark.formats.registry import Registry
from tests.support.examples import examples
from tests.support.in_process.avro_examples import ORDER, FakeRegistry, binary, framed, registry

AT = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)


def field(name: str, of: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of, **more}


def record(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


def logical(of: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": of, "logicalType": name, **more}


LINE = record(field("sku", "string"), field("count", "int"), name="Line")
EVERYTHING = record(
    field("yes", "boolean"),
    field("i", "int"),
    field("l", "long"),
    field("f", "float"),
    field("d", "double"),
    field("raw", "bytes"),
    field("s", "string"),
    field("fixed", {"type": "fixed", "name": "F", "size": 2}),
    field("kind", {"type": "enum", "name": "K", "symbols": ["A", "B"]}),
    field("line", LINE),
    field("lines", {"type": "array", "items": "shop.Line"}),
    field("counts", {"type": "map", "values": ["null", "int"]}),
    field("note", ["null", "string"], default=None),
    field("day", logical("int", "date")),
    field("ms", logical("long", "timestamp-millis")),
    field("us", [logical("long", "timestamp-micros"), "null"]),
    field("local", logical("long", "local-timestamp-micros")),
    field("price", logical("bytes", "decimal", precision=10, scale=2)),
    field("id", logical("string", "uuid")),
    field("clock", logical("int", "time-millis")),
)
VALUE = {
    "yes": True, "i": -1, "l": 2**62, "f": 0.5, "d": 1e300, "raw": b"\xff\0", "s": "é",
    "fixed": b"ab", "kind": "B", "line": {"sku": "x", "count": 1},
    "lines": [{"sku": "y", "count": 2}], "counts": {"a": 1, "b": None}, "note": None,
    "day": date(2026, 1, 1), "ms": AT, "us": None, "local": AT.replace(tzinfo=None),
    "price": Decimal("12.50"), "id": "7d44b88c-4199-4bad-97dc-d78268e01398", "clock": 1000,
}  # fmt: skip


def batch(*values: bytes | None) -> pa.RecordBatch:
    columns = [
        pa.array(range(len(values)), pa.int64()),
        pa.array([1_000_000 * number for number in range(len(values))], pa.timestamp("us", "UTC")),
        pa.array([b"k"] * len(values), pa.binary()),
        pa.array(values, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["offset", "timestamp", "key", "value"])


def read(of: AvroFormat, *values: bytes | None) -> list[Any]:
    """The fields of each value, or the reason why it is malformed."""
    rules = Rules(of)
    [good] = well_formed([batch(*values)], rules, ["offset"])
    [bad] = malformed([batch(*values)], rules)
    found: dict[int, Any] = {row.pop("offset"): row for row in good.to_pylist()}
    found |= {row["offset"]: row["reason"] for row in bad.to_pylist()}
    assert len(found) == good.num_rows + bad.num_rows == len(values)
    return [found[number] for number in range(len(values))]


def avro(schema: Any, **more: Any) -> AvroFormat:
    return AvroFormat(json.dumps(schema), **more)


def test_all_types_have_columns() -> None:
    [found] = read(avro(EVERYTHING), binary(EVERYTHING, VALUE))
    assert found == {**VALUE, "counts": [("a", 1), ("b", None)]}
    columns = avro(EVERYTHING).columns
    assert {each.name: each.dataType.simpleString() for each in columns} == {
        "yes": "boolean", "i": "int", "l": "bigint", "f": "float", "d": "double", "raw": "binary",
        "s": "string", "fixed": "binary", "kind": "string", "line": "struct<sku:string,count:int>",
        "lines": "array<struct<sku:string,count:int>>", "counts": "map<string,int>",
        "note": "string", "day": "date", "ms": "timestamp", "us": "timestamp",
        "local": "timestamp_ntz", "price": "decimal(10,2)", "id": "string", "clock": "int",
    }  # fmt: skip
    assert [each.name for each in columns if each.nullable] == ["note", "us"]


def test_malformed_values_have_reasons() -> None:
    good = binary(ORDER, {"id": 1, "price": 2.5})
    reasons = read(avro(ORDER), good, good[:-1], good + b"\0", b"", None, b"\2")
    assert reasons[0] == {"id": 1, "price": 2.5, "note": None}
    assert reasons[1].startswith("does not match the Avro schema: EOFError")
    assert reasons[2] == "does not match the Avro schema: 1 trailing bytes"
    assert reasons[4] == "value: null"
    assert all(isinstance(each, str) for each in reasons[1:])


def test_values_that_do_not_fit_their_columns_are_malformed() -> None:
    """Each alone: the others of the batch are kept."""
    schema = record(
        field("i", "int"),
        field("price", logical("bytes", "decimal", precision=4, scale=2)),
        field("at", logical("long", "timestamp-millis")),
    )
    wide = record(*(field(name, of) for name, of in (("i", "long"), ("p", "bytes"), ("a", "long"))))
    values = [(1, b"\1", 0), (2**40, b"\1", 0), (1, b"\x7f" * 3, 0), (1, b"\1", 2**60), (2, b"", 1)]
    raws = [binary(wide, dict(zip("ipa", value, strict=True))) for value in values]
    found = read(avro(schema), *raws)
    assert [isinstance(each, dict) for each in found] == [True, False, False, False, True]
    assert found[1].startswith("i: ")
    assert found[2].startswith("price: ")
    assert "OverflowError" in found[3]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("nonsense", "not a supported Avro schema"),
        (record(field("a", ["int", "string"])), "a: a union of several types"),
        (
            record(field("next", ["null", "shop.Order"])),
            "next: the type shop.Order contains",
        ),
        (record(field("a", {"type": "array", "items": "null"})), "without bytes"),
        (record(field("a", "null")), "a: always null"),
        (record(field("a", "bytes", default="x")), "a: a default value of this type"),
        (record(field("a", logical("bytes", "decimal", precision=39))), "a: a decimal of more"),
    ],
)
def test_schemas_without_a_spark_type_are_refused(schema: Any, why: str) -> None:
    with pytest.raises(JobError, match=why):
        _ = avro(schema).columns


def test_a_schema_that_is_not_a_record_has_one_column() -> None:
    assert read(avro("string"), binary("string", "x")) == [{"value": "x"}]
    assert read(avro(ORDER, column="order"), binary(ORDER, {"id": 1, "price": 2})) == [
        {"order": {"id": 1, "price": 2.0, "note": None}}
    ]
    optional = ["null", ORDER]
    assert read(avro(optional), binary(optional, None)) == [{"value": None}]


@given(st.lists(st.binary(max_size=40), max_size=5))
@settings(max_examples=examples(200))
def test_no_bytes_make_decoding_fail(values: list[bytes]) -> None:
    read(avro(EVERYTHING), *values, binary(EVERYTHING, VALUE))


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    monkeypatch.setattr(registry_module, "_PAUSE", 0.01)
    with registry() as running:
        yield running


def test_the_writers_schema_is_converted(running: FakeRegistry) -> None:
    older = record(field("old_name", "int"), field("gone", {"type": "array", "items": "int"}))
    newer = record(
        field("note", "string"), field("more", ["int", "string"]), field("id", "long"),
        field("at", logical("long", "timestamp-micros")),
    )  # fmt: skip
    reader = record(
        field("id", "long", aliases=["old_name"]),
        field("note", ["null", "string"], default=None),
        field("kind", "string", default="order"),
        field("at", ["null", logical("long", "timestamp-millis")], default=None),
    )
    running.add(1, older)
    running.add(2, newer)
    of = avro(reader, is_framed=True, registry=Registry(running.url))
    found = read(
        of,
        framed(1, older, {"old_name": 7, "gone": [1]}),
        framed(2, newer, {"id": 8, "note": "n", "more": "x", "at": AT}),
        framed(1, older, {"old_name": 9, "gone": []}),
    )
    assert found == [
        {"id": 7, "note": None, "kind": "order", "at": None},
        {"id": 8, "note": "n", "kind": "order", "at": AT},
        {"id": 9, "note": None, "kind": "order", "at": None},
    ]
    assert [path for path, _ in running.asked] == ["/schemas/ids/1", "/schemas/ids/2"], "once each"


def test_a_decimal_without_a_precision_is_bytes(running: FakeRegistry) -> None:
    """Avro ignores a logical type that is not valid, and registries accept such a schema."""
    price = logical("bytes", "decimal")
    running.add(1, record(field("id", "int"), field("price", price)))
    raw = framed(1, record(field("id", "int"), field("price", "bytes")), {"id": 1, "price": b"p"})
    registry = Registry(running.url)
    of = avro(record(field("id", "int")), is_framed=True, registry=registry)
    assert read(of, raw) == [{"id": 1}]
    of = avro(record(field("price", "bytes")), is_framed=True, registry=registry)
    assert read(of, raw) == [{"price": b"p"}]
    of = avro(record(field("price", logical("bytes", "decimal", precision=4))), is_framed=True,
              registry=registry)  # fmt: skip
    assert read(of, raw) == ["schema 1: price: no time or decimal, but the view reads decimal"]


def test_schemas_that_do_not_fit_are_dead_letters(running: FakeRegistry) -> None:
    plain = record(field("at", "long"))
    running.add(1, plain)
    running.add(2, record(field("other", "int")))
    running.add(4, "message Order {}", schemaType="PROTOBUF")
    running.answers["/schemas/ids/4?format=serialized"] = (200, {"schema": "CgA="})
    of = avro(
        record(field("at", logical("long", "timestamp-millis"))),
        is_framed=True,
        registry=Registry(running.url),
    )
    found = read(
        of,
        framed(1, plain, {"at": 1}),
        framed(2, record(field("other", "int")), {"other": 1}),
        framed(3, plain, {"at": 1}),
        framed(4, plain, {"at": 1}),
        b"\0\0\0",
        b"\1" + framed(1, plain, {"at": 1}),
        framed(3, plain, {"at": 1}),
        b"\0\xde\xad\xbe\xef",
    )
    assert found[0] == "schema 1: at: no time or decimal, but the view reads timestamp"
    assert "does not match the Avro schema: SchemaResolutionError" in found[1]
    assert found[2] == found[6] == "schema 3: the registry has no schema with this id"
    assert found[3] == "schema 4: the schema is protobuf, not avro"
    unframed = "without Confluent's framing: a zero byte and 4 bytes with the schema id"
    assert found[4] == found[5] == unframed
    assert found[7] == "schema 3735928559: ids of schemas have at most 31 bits"
    assert "/schemas/ids/3735928559" not in [path for path, _ in running.asked]
    assert [path for path, _ in running.asked].count("/schemas/ids/3") == 2, "once in each task"
    assert [path for path, _ in running.asked].count("/schemas/ids/2") == 1


def test_a_record_written_after_its_schema_was_registered_is_read(running: FakeRegistry) -> None:
    """A worker has met the id before, in a record that came too early or is garbage. Another one,
    of the dead letters, has not: it reads the record, and so does not write it."""
    plain = record(field("id", "int"))
    of = avro(plain, is_framed=True, registry=Registry(running.url))
    raw = framed(7, plain, {"id": 1})
    assert read(of, raw) == ["schema 7: the registry has no schema with this id"]
    running.add(7, plain)
    assert read(of, raw) == [{"id": 1}]


@pytest.mark.parametrize(
    ("writer", "value"),
    [
        (record(field("sent", "long")), {"sent": 1_767_263_400_000}),
        (record(field("at", ["string", "long"])), {"at": 1_767_263_400_000}),
        (record(field("at", ["int", "string"])), {"at": 1}),
        (record(field("sent", ["null", "string", "long"])), {"sent": None}),
    ],
    ids=["renamed", "in a union", "promoted", "both"],
)
def test_a_plain_number_is_no_time_however_the_field_is_found(
    running: FakeRegistry, writer: dict[str, Any], value: dict[str, Any]
) -> None:
    running.add(1, writer)
    reader = record(field("at", ["null", logical("long", "timestamp-millis")], aliases=["sent"]))
    of = avro(reader, is_framed=True, registry=Registry(running.url))
    assert read(of, framed(1, writer, value)) == [
        "schema 1: at: no time or decimal, but the view reads timestamp"
    ]


def test_only_branches_that_can_be_read_count(running: FakeRegistry) -> None:
    millis = logical("long", "timestamp-millis")
    other = record(field("at", "long"), name="Other")
    named = record(field("at", millis), name="Named")
    writer = record(
        field("sent", ["string", millis]), field("at", "string"), field("part", [other, named])
    )
    running.add(1, writer)
    reader = record(
        field("at", "string"),
        field("time", logical("long", "timestamp-micros"), aliases=["sent", "at"]),
        field("part", named),
    )
    of = avro(reader, is_framed=True, registry=Registry(running.url))
    good = {"sent": AT, "at": "text", "part": ("shop.Named", {"at": AT})}
    first, second = read(of, framed(1, writer, good), framed(1, writer, {**good, "sent": "text"}))
    assert first == {"at": "text", "time": AT, "part": {"at": AT}}
    assert "SchemaResolutionError" in second


def test_a_registry_that_is_away_is_no_reason_for_a_dead_letter(running: FakeRegistry) -> None:
    running.answers["/schemas/ids/1"] = (503, {"error_code": 50301})
    of = avro(ORDER, is_framed=True, registry=Registry(running.url))
    raw = framed(1, ORDER, {"id": 1, "price": 2})
    with pytest.raises(SchemaSourceUnavailable, match="503"):
        read(of, raw)
    running.add(1, ORDER)
    assert read(of, raw) == [{"id": 1, "price": 2.0, "note": None}]


def test_a_table_has_tombstones_and_needs_keys() -> None:
    rules = Rules(avro(ORDER), key=avro("int", column="id_of_key"), is_table=True)
    values = [binary(ORDER, {"id": 1, "price": 2}), None, None, None]
    keys = [binary("int", 7), binary("int", 8), None, b""]
    rows = batch(*values).set_column(2, "key", pa.array(keys, pa.binary()))
    [good] = well_formed([rows], rules, ["offset"])
    assert good.to_pylist() == [
        {"offset": 0, "id": 1, "price": 2.0, "note": None, "id_of_key": 7},
        {"offset": 1, "id": None, "price": None, "note": None, "id_of_key": 8},
    ]
    [bad] = malformed([rows], rules)
    reasons = [row["reason"] for row in bad.to_pylist()]
    assert reasons[0] == "key: null"
    assert reasons[1].startswith("key: does not match the Avro schema")


def test_the_time_of_an_event_is_compared_with_its_records() -> None:
    schema = record(field("at", logical("long", "timestamp-millis")))
    rules = Rules(avro(schema), event_time=EventTimeBounds("at", 60, 60))
    start = datetime(1980, 1, 1, tzinfo=UTC)
    raws = [binary(schema, {"at": start + timedelta(seconds=s)}) for s in (0, -60, -61)]
    stamps = pa.array([start] * 3, pa.timestamp("us", "UTC"))
    rows = batch(*raws).set_column(1, "timestamp", stamps)
    [bad] = malformed([rows], rules)
    assert bad.column("reason").to_pylist() == [
        "at: late: more than 60 s before the record's timestamp"
    ]


ODD = record(
    field("parent", ["null", "shop.Order"], default=None),
    field("mixed", ["string", "long"]),
    field("wide", logical("bytes", "decimal", precision=64, scale=2)),
    field("holder", ["null", record(field("line", LINE), field("m", ["int", "string"]), name="H")]),
    field("line", "shop.Line"),
    field("id", "long"),
)
ODD_VALUE = {
    "parent": {"parent": None, "mixed": 1, "wide": Decimal("1.00"), "holder": None,
               "line": {"sku": "p", "count": 0}, "id": 0},
    "mixed": "text",
    "wide": Decimal("2.00"),
    "holder": {"line": {"sku": "h", "count": 1}, "m": "x"},
    "line": {"sku": "s", "count": 2},
    "id": 7,
}  # fmt: skip


@pytest.mark.parametrize("is_framed", [False, True])
def test_a_partial_format_leaves_out_fields_without_a_type(is_framed: bool) -> None:
    """A type that is defined within such a field is still there in another one. fastavro writes
    the records."""
    text = json.dumps(ODD)
    with pytest.raises(JobError, match="contains itself"):
        _ = AvroFormat(text).columns
    partial = AvroFormat(text, is_framed, column="value", is_partial=True)
    assert partial.left_out().keys() == {"parent", "mixed", "wide", "holder.m"}
    with registry() as running:
        running.add(7, ODD)
        format_ = AvroFormat(
            text, is_framed, "value", is_partial=True, registry=Registry(running.url)
        )
        written = framed(7, ODD, ODD_VALUE) if is_framed else binary(ODD, ODD_VALUE)
        assert format_.decoder()(written) == {
            "value": {
                "holder": {"line": {"sku": "h", "count": 1}},
                "line": {"sku": "s", "count": 2},
                "id": 7,
            }
        }
        with pytest.raises(ValueError, match="does not match the Avro schema"):
            format_.decoder()(written[:-1])
        with pytest.raises(ValueError, match="1 trailing bytes"):
            format_.decoder()(written + b"x")
