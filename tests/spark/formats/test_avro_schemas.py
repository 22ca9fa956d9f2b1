"""The reader of Spark accepts the schemas that backends accept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from model.formats.avro.format import Avro
from model.formats.schema_registry import RegisteredSchema
from spark.formats.avro_reader import AvroReader
from tests.vectors.avro_cases import CASES, REFUSED, Case

READ = {name: case for name, case in CASES.items() if case.read != REFUSED}


def first(value: dict[str, Any]) -> str:
    return repr(next(iter(value.values())))


@pytest.mark.parametrize("case", READ.values(), ids=list(READ))
def test_a_record_is_read(case: Case) -> None:
    if isinstance(case.spark, ValueError):
        with pytest.raises(ValueError, match=str(case.spark)):
            AvroReader(case.schema)
        return
    reader = AvroReader(case.schema)
    raw = bytes.fromhex(case.record)
    expected = repr(case.read if case.spark is None else case.spark)
    if isinstance(case.spark, str):
        expected = case.spark
    assert first(reader.decode(raw)) == expected
    # framed, and written with this schema
    writer = RegisteredSchema(Avro(), case.schema, ())
    assert first(reader.written_with(writer)(raw)) == expected
    assert reader.decode(reader.encode(reader.decode(raw))) == reader.decode(raw)


INNER = {"type": "record", "name": "I", "fields": [
    {"name": "a", "type": "int"}, {"name": "b", "type": "float", "default": 1},
]}  # fmt: skip
COLOUR = {"type": "enum", "name": "C", "symbols": ["A", "a-b"]}


@pytest.mark.parametrize(
    ("of", "default", "read"),
    [
        ("int", 7, 7),
        ("int", 2**31, None),
        ("long", 2**31, 2**31),
        ("long", True, None),
        ("double", 0, 0.0),
        ({"type": "double"}, 0, 0.0),
        ("double", "1.5", None),
        ("boolean", False, False),
        ("boolean", 0, None),
        ("string", None, None),
        (["string", "null"], None, "null"),
        (["null", "string"], "x", "x"),
        (["null", "string"], 5, None),
        (COLOUR, "a-b", "a-b"),
        (COLOUR, "", None),
        ({"type": "array", "items": "double"}, [1, 2], [1.0, 2.0]),
        ({"type": "array", "items": "double"}, ["x"], None),
        ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
        ({"type": "map", "values": "int"}, [], None),
        (INNER, {"a": 1}, {"a": 1, "b": 1.0}),
        (INNER, {"b": 1}, None),
        (INNER, None, None),
    ],
)
def test_a_default_counts_if_it_fits_its_type(of: Any, default: Any, read: Any) -> None:
    """Without one, a record that does not have the field cannot be read."""
    field = {"name": "v", "type": of, "default": default}
    other = {"name": "w", "type": "int"}
    reader = AvroReader(json.dumps({"type": "record", "name": "R", "fields": [field, other]}))
    writer = json.dumps({"type": "record", "name": "R", "fields": [other]})
    decode = reader.written_with(RegisteredSchema(Avro(), writer, ()))
    if read is None:
        with pytest.raises(ValueError, match="No default value for field v"):
            decode(b"\x0e")
    else:
        assert repr(decode(b"\x0e")) == repr({"v": None if read == "null" else read, "w": 7})
