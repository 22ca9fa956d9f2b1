"""Formats by their names."""

from __future__ import annotations

import json

import pytest

from spark.errors import JobError
from spark.formats.avro import AvroFormat
from spark.formats.protobuf import ProtobufFormat
from spark.formats.schema_formats import schema_format
from tests.support.in_process.avro_examples import ORDER
from tests.support.in_process.protobuf_examples import DESCRIPTORS


def test_formats_by_their_names() -> None:
    text = json.dumps(ORDER)
    assert schema_format("avro", text.encode(), is_framed=True) == AvroFormat(text, is_framed=True)
    found = schema_format("protobuf", DESCRIPTORS, message="shop.Order", column="order")
    assert found == ProtobufFormat(DESCRIPTORS, "shop.Order", column="order")


@pytest.mark.parametrize(
    ("name", "schema", "why"),
    [
        ("avro", b"\xff", "not UTF-8"),
        ("avro", b"{}", "the Avro schema cannot be used"),
        ("protobuf", DESCRIPTORS, "is not a message type of the file; it has"),
        ("json", b"", "no format json with a schema"),
    ],
)
def test_what_cannot_be_used_is_refused(name: str, schema: bytes, why: str) -> None:
    with pytest.raises(JobError, match=why):
        schema_format(name, schema)
