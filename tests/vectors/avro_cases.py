"""Avro schemas that libraries and registries accept, and how a record of each is read.

`python -m tests.vectors.avro_cases` prints them for AvroSchemaVectors.java.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

REFUSED = "refused"


@dataclass(frozen=True)
class Case:
    what: str
    """What is unusual, and which tools write it."""

    schema: str
    """The text of the schema."""

    record: str
    """A record, hexadecimal."""

    read: Any
    """Its first field as JSON; REFUSED if no library could read it."""

    spark: Any = None
    """Its first field as Spark gets it, if it is another value; an exception with a part of the
    reason if the schema has no type in Spark."""


def of_field(of: Any, **more: Any) -> str:
    """A record with one field."""
    return of_fields({"name": "v", "type": of, **more})


def of_fields(*fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "record", "name": "R", **more, "fields": fields})


def decimal(base: str = "bytes", **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": "decimal", **more}


def fixed(size: Any, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": symbols, **more}


def logical(base: str, name: Any, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


RAW, RAW_TEXT, RAW_BYTES = "04007d", "AH0", b"\0\x7d"
TEXT = "046162"
SEVEN = "0e"
HALF = "0000000000000440"
INNER = {"type": "record", "name": "I", "fields": []}
PAIR = {"type": "record", "name": "I", "namespace": "x"}

DECIMALS = [
    Case("valid", of_field(decimal(precision=9, scale=2)), RAW, "1.25", "Decimal('1.25')"),
    Case("without a scale", of_field(decimal(precision=9)), RAW, "125", "Decimal('125')"),
    Case(
        "Oracle's NUMBER by Connect and Debezium",
        of_field(decimal(precision=64, scale=127, **{"connect.name": "org.apache.kafka.connect"})),
        RAW, RAW_TEXT, RAW_BYTES,
    ),
    Case("a negative scale, Oracle's NUMBER(9,-2)", of_field(decimal(precision=9, scale=-2)),
         RAW, RAW_TEXT, RAW_BYTES),
    Case("a scale as text", of_field(decimal(precision=9, scale="2")), RAW, RAW_TEXT, RAW_BYTES),
    Case("a scale of null", of_field(decimal(precision=9, scale=None)), RAW, RAW_TEXT, RAW_BYTES),
    Case("a scale of 2.0", of_field(decimal(precision=9, scale=2.0)), RAW, RAW_TEXT, RAW_BYTES),
    Case("a precision as text",
         of_field(decimal(precision="9", scale=2)), RAW, RAW_TEXT, RAW_BYTES),
    Case("no precision", of_field(decimal(scale=2)), RAW, RAW_TEXT, RAW_BYTES),
    Case("a precision of null", of_field(decimal(precision=None)), RAW, RAW_TEXT, RAW_BYTES),
    Case("a precision of 0", of_field(decimal(precision=0)), RAW, RAW_TEXT, RAW_BYTES),
    Case("a precision of true", of_field(decimal(precision=True)), RAW, RAW_TEXT, RAW_BYTES),
    Case("a precision of 9.0", of_field(decimal(precision=9.0)), RAW, RAW_TEXT, RAW_BYTES),
    Case("a precision of more than 31 bits", of_field(decimal(precision=2**31)),
         RAW, RAW_TEXT, RAW_BYTES),
    Case("the greatest precision", of_field(decimal(precision=2**31 - 1)), RAW, "125",
         ValueError("more than 38 digits")),
    # in Spark it does not fit its column
    Case("a value with more digits than the precision", of_field(decimal(precision=1)), RAW, "125",
         "Decimal('1E+2')"),
    Case("a decimal as text", of_field(decimal("string", precision=9, scale=2)), TEXT, "ab"),
    Case("a decimal in a long", of_field(decimal("long", precision=9, scale=2)), SEVEN, 7),
    Case("a fixed with just enough bytes", of_field(fixed(2, **decimal("fixed", precision=4))),
         "007d", "125", "Decimal('125')"),
    Case("a fixed too small for its precision",
         of_field(fixed(2, **decimal("fixed", precision=5))), "007d", RAW_TEXT, RAW_BYTES),
    Case("a fixed without bytes", of_field(fixed(0, **decimal("fixed", precision=1))), "", "", b""),
]  # fmt: skip

LOGICAL_TYPES = [
    Case("a number as a name", of_field(logical("int", 5)), SEVEN, 7),
    Case("null as a name", of_field(logical("int", None)), SEVEN, 7),
    Case("a list as a name", of_field(logical("int", ["date"])), SEVEN, 7),
    Case("a name that nobody knows", of_field(logical("int", "my-money")), SEVEN, 7),
    Case("a date in a long", of_field(logical("long", "date")), SEVEN, 7),
    Case("a date as text", of_field(logical("string", "date")), TEXT, "ab"),
    Case("time-millis in a long", of_field(logical("long", "time-millis")), SEVEN, 7),
    Case("time-micros in an int", of_field(logical("int", "time-micros")), SEVEN, 7),
    Case("timestamp-millis in an int", of_field(logical("int", "timestamp-millis")), SEVEN, 7),
    Case("timestamp-millis as text", of_field(logical("string", "timestamp-millis")), TEXT, "ab"),
    Case("uuid in bytes", of_field(logical("bytes", "uuid")), TEXT, "YWI", b"ab"),
    Case("uuid in a fixed of 4 bytes", of_field(fixed(4, logicalType="uuid")),
         "00000001", "AAAAAQ", b"\0\0\0\1"),
    Case("uuid in a fixed, of Avro 1.12", of_field(fixed(16, logicalType="uuid")), "00" * 16,
         "00000000-0000-0000-0000-000000000000", bytes(16)),
    Case("duration", of_field(fixed(12, logicalType="duration")), "00" * 12, "A" * 16, bytes(12)),
    Case("a logical type of the field, not of its type",
         of_fields({"name": "v", **logical("int", "date")}), SEVEN, 7),
    Case("properties of Connect", of_field(logical("int", "date", **{
         "connect.version": 1, "connect.name": "org.apache.kafka.connect.data.Date"})),
         SEVEN, "1970-01-08", "datetime.date(1970, 1, 8)"),
    Case("properties of Avro's Java", of_field({"type": "string", "avro.java.string": "String"}),
         TEXT, "ab"),
]  # fmt: skip

DEFAULTS = [
    Case("null for text",
         of_field("string", default=None), TEXT, "ab"),
    Case("text for a long", of_field("long", default="0"), SEVEN, 7),
    Case("a number for text", of_field("string", default=0), TEXT, "ab"),
    Case("a fraction for an int", of_field("int", default=1.5), SEVEN, 7),
    Case("too large for an int", of_field("int", default=2**40), SEVEN, 7),
    Case("a whole number for a double", of_field({"type": "double"}, default=0), HALF, 2.5),
    Case("NaN as text", of_field({"type": "double"}, default="NaN"), HALF, 2.5),
    Case("0 for a boolean", of_field("boolean", default=0), "01", True),
    Case("not a symbol", of_field(enum("A", "B"), default=""), "02", "B"),
    Case("null for a record", of_field(INNER, default=None), "", {}),
    Case("a list for a map", of_field({"type": "map", "values": "int"}, default=[]), "00", {}),
    Case("an object for a list", of_field({"type": "array", "items": "int"}, default={}), "00", []),
    Case("the second branch", of_field(["string", "null"], default=None), "00" + TEXT,
         "ab"),
    Case("no branch", of_field(["null", "string"], default=5), "02" + TEXT, "ab"),
    Case("the text null", of_field(["null", "string"], default="null"), "02" + TEXT, "ab"),
    Case("of an enum, and not a symbol", of_field(enum("A", "B", default="C")), "02", "B"),
    Case("of an enum, null", of_field(enum("A", "B", default=None)), "02", "B"),
]  # fmt: skip

NAMES = [
    Case("symbols with letters of any script", of_field(enum("A", "Grün")), "02", "Grün"),
    Case("symbols with a minus", of_field(enum("A", "a-b")), "02", "a-b"),
    Case("symbols with a digit at the start", of_field(enum("A", "1a")), "02", "1a"),
    Case("an empty symbol", of_field(enum("A", "")), "02", ""),
    Case("a symbol twice", of_field(enum("A", "B", "A")), "04", "A"),
    Case("fields with letters of any script", of_fields({"name": "größe", "type": "int"}), SEVEN,
         7),
    Case("fields with a minus", of_fields({"name": "to-city", "type": "int"}), SEVEN, 7),
    Case("a type named _", of_fields({"name": "v", "type": "int"}, name="_"), SEVEN, 7),
    Case("a namespace with odd characters",
         of_fields({"name": "v", "type": "int"}, namespace="a-b.1c"), SEVEN, 7),
    Case("aliases that are no list", of_field(enum("A", "B", aliases="x"), aliases="y"), "02", "B"),
    Case("a namespace of null is that around it", of_fields(
         {"name": "v", "type": fixed(1, namespace=None)}, {"name": "w", "type": "shop.F"},
         namespace="shop"), "0102", "AQ", b"\1"),
    Case("an empty namespace is none", of_fields(
         {"name": "v", "type": fixed(1, namespace="")}, {"name": "w", "type": "F"},
         namespace="shop"), "0102", "AQ", b"\1"),
    Case("a name without a namespace, from within one", of_fields(
         {"name": "v", "type": fixed(1)},
         {"name": "w", "type": {**PAIR, "fields": [{"name": "f", "type": "F"}]}}),
         "0102", "AQ", b"\1"),
    Case("a name before its definition, as Avro 1.12 allows", of_fields(
         {"name": "v", "type": "F"}, {"name": "w", "type": fixed(1)}), "0102", "AQ", b"\1"),
    Case("a type that is defined twice, alike", of_fields(
         {"name": "v", "type": fixed(1)}, {"name": "w", "type": fixed(1)}), "0102", "AQ", b"\1"),
    Case("a type that is defined twice, differently", of_fields(
         {"name": "v", "type": fixed(1)}, {"name": "w", "type": fixed(2)}), "010202", REFUSED),
]  # fmt: skip

FORMS = [
    Case("a union as an object", of_field({"type": ["null", "int"]}), "020e", 7),
    Case("a union as an object in an object", of_field({"type": {"type": ["null", "int"]}}),
         "020e", 7),
    Case("a type in objects", of_field({"type": {"type": {"type": "int"}}}), SEVEN, 7),
    Case("a logical type within an object", of_field({"type": logical("int", "date")}), SEVEN,
         "1970-01-08", "datetime.date(1970, 1, 8)"),
    Case("a logical type of a union", of_field(logical(["null", "int"], "date")), "020e", 7),  # type: ignore[arg-type]
    Case("items that are a union as an object",
         of_field({"type": "array", "items": {"type": ["null", "int"]}}), "02020e00", [7]),
    Case("a union in a union", of_field(["null", {"type": ["int", "string"]}]), "02000e", 7,
         ValueError("union")),
    Case("a type twice in a union", of_field(["int", "int"]), "020e", 7, ValueError("union")),
    Case("an error", of_fields({"name": "v", "type": "int"}, type="error"), SEVEN, 7),
    Case("a number as documentation", of_field("int", doc=5), SEVEN, 7),
    Case("an unknown order", of_field("int", order="x"), SEVEN, 7),
    Case("comments, which Avro's Java reads",
         f'/* one */ {of_field("int", doc="http://x /* y */")[:-1]} // two\n}}', SEVEN, 7),
    Case("half an emoji in the documentation", of_field("int", doc="x\ud83d"), SEVEN, 7),
    Case("a number beyond double", of_field("double", default=5).replace("5}", "1e400}"), HALF,
         2.5),
    Case("a mark of fastavro", of_field({"type": "int"}).replace("{", '{"__fastavro_parsed": 1, '),
         SEVEN, 7),
    Case("a size as text", of_field(fixed("1")), "01", REFUSED),
    Case("a size of true", of_field(fixed(True)), "01", REFUSED),
    Case("a negative size", of_field(fixed(-1)), "01", REFUSED),
    Case("no size", of_field({"type": "fixed", "name": "F"}), "01", REFUSED),
    Case("no name", of_field({"type": "record", "fields": []}), "", REFUSED),
    Case("two schemas", '"int" "int"', SEVEN, REFUSED),
]  # fmt: skip

CASES = {
    f"{group}: {case.what}": case
    for group, cases in {
        "decimal": DECIMALS,
        "logical type": LOGICAL_TYPES,
        "default": DEFAULTS,
        "names": NAMES,
        "form": FORMS,
    }.items()
    for case in cases
}


if __name__ == "__main__":
    for name, case in CASES.items():
        print(json.dumps({"case": name, "schema": case.schema, "record": case.record}))
