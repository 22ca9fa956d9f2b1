"""Schemas that registries and other libraries accept are read: a table of cases."""

from __future__ import annotations

import json

import pytest

from model.formats.avro.format import Avro
from model.formats.avro.schema import AvroSchema
from tests.vectors.avro_cases import CASES, REFUSED, Case


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_record_is_read(case: Case) -> None:
    if case.read == REFUSED:
        with pytest.raises(ValueError, match="not a supported Avro schema"):
            AvroSchema(case.schema)
        return
    schema = AvroSchema(case.schema)
    raw = bytes.fromhex(case.record)
    schema.check(raw)
    assert next(iter(json.loads(schema.to_json(raw)).values())) == case.read


@pytest.mark.parametrize("text", ['\ufeff"int"', b'\xef\xbb\xbf"int"', b'// a comment\n"int"'])
def test_a_file_of_an_editor(text: str | bytes) -> None:
    """It is stored, and shown to clients, as plain JSON."""
    assert AvroSchema(text).to_json(b"\x0e") == b"7"
    content = text.encode() if isinstance(text, str) else text
    assert Avro().definition_of(content, "value", {}) == '"int"'


@pytest.mark.parametrize("end", ["", "*/"])
def test_comments_take_linear_time(end: str) -> None:
    with pytest.raises(ValueError, match="not a supported Avro schema"):
        AvroSchema("/*" * 500_000 + end)


def test_few_bytes_of_a_schema_do_not_become_megabytes() -> None:
    """Its scale would be written in each value."""
    bytes_decimal = {"type": "bytes", "logicalType": "decimal"}
    big = AvroSchema(json.dumps({**bytes_decimal, "precision": 2**31 - 1, "scale": 2**31 - 1}))
    assert big.to_json(b"\x02\x01") == b'"AQ"'


def test_references_are_resolved_in_their_namespace() -> None:
    """Of two types with one short name, the one in the namespace around it is meant."""
    names = [json.dumps({"type": "fixed", "name": name, "size": size}) for name, size in
             (("F", 1), ("x.F", 2))]  # fmt: skip
    using = {"type": "record", "name": "x.R", "fields": [{"name": "v", "type": "F"}]}
    assert AvroSchema(json.dumps(using), names).to_json(b"\0\1") == b'{"v":"AAE"}'
    assert AvroSchema(json.dumps(using), names[:1]).to_json(b"\1") == b'{"v":"AQ"}'
    # each reference may contain what it uses
    assert AvroSchema(json.dumps(using), [*names, names[0]]).to_json(b"\0\1") == b'{"v":"AAE"}'
