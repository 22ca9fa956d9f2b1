"""Every key that a listing shows is found by its own text, in all formats: in bodies, in URLs and
by the client."""

from __future__ import annotations

import json
import math
import struct
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.formats.avro.codecs import avro_codec
from model.formats.base64url import from_base64url
from model.formats.codec import Codec
from model.formats.format import PythonForm
from model.formats.listed_keys import codec_of_keys
from model.formats.protobuf.codecs import definition, protobuf_codec
from model.formats.protobuf.schema import from_descriptor_set
from model.formats.registry import FORMATS, format_of
from model.formats.schemas import CONFLUENT
from queryable.client.protocol.formats import Format
from tests.support.examples import examples
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.protobuf_examples import DESCRIPTORS
from tests.unit.model.test_codecs import RAW, UUIDS

Keys = st.SearchStrategy[bytes]


class Lowered(Codec):
    """A custom format that reads texts in any case, and so has keys that no text means."""

    def check(self, raw: bytes) -> None:
        raw.decode()

    def to_json(self, raw: bytes) -> bytes:
        return orjson.dumps(raw.decode())

    def from_text(self, text: bytes) -> bytes:
        return text.lower()


LOWERED = f"{__name__}:Lowered"


def varint(number: int, more: int) -> bytes:
    """A zigzag varint with `more` bytes than it needs."""
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F or more:
        more -= rest <= 0x7F
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def avro_text(text: str) -> bytes:
    return varint(len(text.encode()), 0) + text.encode()


RECORD = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": "string"}],
}
LONGS = st.integers(-(2**63), 2**63 - 1)
WORDS = st.text(max_size=5)
# each with what writers of other languages write
AVRO: dict[str, tuple[Any, Keys]] = {
    "long": ("long", st.builds(varint, st.integers(-(2**31), 2**31), st.integers(0, 2))),
    "boolean": ("boolean", st.sampled_from([b"\0", b"\1"])),
    "double": (
        "double",
        st.binary(min_size=8, max_size=8),
    ),
    "float": (
        "float",
        st.binary(min_size=4, max_size=4),
    ),
    "string": ("string", WORDS.map(avro_text)),
    "bytes": ("bytes", st.binary(max_size=9).map(lambda raw: varint(len(raw), 0) + raw)),
    # .NET and Java write as few bytes as are needed; others a fixed number
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2},
        st.builds(
            lambda n, size: varint(size, 0) + n.to_bytes(size, "big", signed=True),
            st.integers(-(2**31), 2**31 - 1),
            st.integers(4, 12),
        ),
    ),
    "fixed uuid": (
        {"type": "fixed", "size": 16, "name": "U", "logicalType": "uuid"},
        st.binary(min_size=16, max_size=16),
    ),
    "string uuid": ({"type": "string", "logicalType": "uuid"}, UUIDS.map(avro_text)),
    "date": (
        {"type": "int", "logicalType": "date"},
        st.integers(-(2**31), 2**31 - 1).map(lambda n: varint(n, 0)),
    ),
    "timestamp": (
        {"type": "long", "logicalType": "timestamp-micros"},
        LONGS.map(lambda n: varint(n, 0)),
    ),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, st.sampled_from([b"\0", b"\2"])),
    "record": (
        RECORD,
        st.builds(lambda n, word: varint(n, 0) + avro_text(word), LONGS, WORDS),
    ),
    # the only schema whose documents can look like those of bytes
    "map named as the document": (
        {"type": "map", "values": "string"},
        st.sampled_from(["", "AA", "AgYAAA"]).map(
            lambda text: one_block([avro_text("@base64url") + avro_text(text)])
        ),
    ),
    # one block, a block for each entry, or blocks with their sizes, as Go's hamba/avro writes them
    "map": (
        {"type": "map", "values": "string"},
        st.dictionaries(WORDS, WORDS, max_size=3).flatmap(
            lambda entries: st.sampled_from([one_block, many_blocks, sized_block]).map(
                lambda written: written([avro_text(k) + avro_text(v) for k, v in entries.items()])
            )
        ),
    ),
    "array": (
        {"type": "array", "items": "string"},
        st.lists(WORDS, max_size=3).flatmap(
            lambda items: st.sampled_from([one_block, many_blocks, sized_block]).map(
                lambda written: written([avro_text(item) for item in items])
            )
        ),
    ),
    "union": (
        ["null", "int", "long", "string", {"type": "enum", "name": "E", "symbols": ["A"]}],
        st.sampled_from([b"\0", b"\2\2", b"\4\2", b"\6\2A", b"\x08\0"]),
    ),
}


def one_block(items: list[bytes]) -> bytes:
    return varint(len(items), 0) + b"".join(items) + b"\0" if items else b"\0"


def many_blocks(items: list[bytes]) -> bytes:
    return b"".join(b"\2" + item for item in items) + b"\0"


def sized_block(items: list[bytes]) -> bytes:
    content = b"".join(items)
    return varint(-len(items), 0) + varint(len(content), 0) + content + b"\0" if items else b"\0"


PROTOBUF = protobuf_codec(definition("shop.Order", from_descriptor_set(DESCRIPTORS)), None)
FIELDS = st.lists(
    st.sampled_from([b"\x08\x07", b"\x08\x00", b"\x1a\x01x", b"\x22\x01a", b"\xf8\x07\x01",
                     b"\x42\x05\x0a\x01a\x10\x01", b"\x42\x05\x0a\x01b\x10\x01", b"\x28\x05",
                     struct.pack("<Bd", 0x11, math.nan), struct.pack("<Bd", 0x11, -0.0)]),
    max_size=4,
)  # fmt: skip

CASES: dict[str, tuple[Codec, PythonForm, Keys]] = {
    **{
        name: (FORMATS[name].codec_with(None, None), FORMATS[name].python, raw)
        for name, raw in RAW.items()
    },
    **{
        f"avro {name}": (avro_codec(json.dumps(schema), None), FORMATS["avro"].python, raw)
        for name, (schema, raw) in AVRO.items()
    },
    "protobuf": (PROTOBUF, FORMATS["protobuf"].python, FIELDS.map(b"".join)),
    LOWERED: (
        format_of(LOWERED).codec_with(None, None),
        format_of(LOWERED).python,
        st.text('aAbB é"{}', max_size=4).map(str.encode) | st.just(b'{"@base64url":"QQ"}'),
    ),
}
# the text of a URL is the content of the JSON string, and not the string itself
_AS_CONTENT = ("string", "uuid", "float64", LOWERED)


def is_accepted(codec: Codec, raw: bytes) -> bool:
    try:
        codec.check(raw)
    except ValueError:
        return False
    return True


def in_url(name: str, document: bytes) -> bytes:
    """The text of a key in a URL, as docs/reference/formats.md tells to write what is listed."""
    value = orjson.loads(document)
    if isinstance(value, str) and (name in _AS_CONTENT or name == "bytes"):
        return value.encode()
    return document


def test_every_format_of_keys_is_tested() -> None:
    named = {name.partition(" ")[0] for name in CASES} - {LOWERED}
    assert named == {name for name, each in FORMATS.items() if each.for_keys}


@pytest.mark.parametrize("name", CASES)
@settings(
    deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.filter_too_much]
)
@given(data=st.data())
def test_a_listed_key_is_found_by_its_own_text(name: str, data: st.DataObject) -> None:
    plain, python, strategy = CASES[name]
    codec = codec_of_keys(plain)
    raw = data.draw(strategy.filter(lambda raw: is_accepted(plain, raw)))
    document = codec.to_json(raw)
    # in a body
    text, is_raw = codec.json_to_text(orjson.loads(document), document)
    of_body = from_base64url(text) if is_raw else codec.from_text(text)
    if name != LOWERED or document.startswith(b"{"):  # its bodies have another text
        assert of_body == raw, document
    # in a URL
    text = in_url(name, document)
    assert (from_base64url(text) if name == "bytes" else codec.from_text(text)) == raw, document
    # what the client gives, given to the client
    form = Format(name, python, plain if name in RAW else None)
    is_by_bytes = document.startswith(b'{"@base64url"')
    # the client does not know the schema
    if (python.identifies_key or is_by_bytes) and name != "avro map named as the document":
        segment, encoded = form.path_segment(form.key_from_json(json.loads(document)))
        text = unquote_to_bytes(segment)
        assert (from_base64url(text) if encoded else codec.from_text(text)) == raw, document


@pytest.mark.parametrize("name", CASES)
@settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.filter_too_much]
)
@given(data=st.data())
def test_two_keys_are_listed_by_two_documents(name: str, data: st.DataObject) -> None:
    plain, _, strategy = CASES[name]
    codec = codec_of_keys(plain)
    keys = strategy.filter(lambda raw: is_accepted(plain, raw))
    one, other = data.draw(keys), data.draw(keys)
    assert (codec.to_json(one) == codec.to_json(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "raw", "document"),
    [
        ("float64", bytes.fromhex("7ff8000000000000"), b'"NaN"'),
        ("float64", bytes.fromhex("7ff8000000000001"), b'{"@base64url":"f_gAAAAAAAE"}'),
        ("float64", bytes.fromhex("fff8000000000000"), b'{"@base64url":"__gAAAAAAAA"}'),
        ("float64", bytes.fromhex("8000000000000000"), b"-0.0"),
        ("avro map", one_block([avro_text("a") + avro_text("1")]), b'{"a":"1"}'),
        (
            "avro map",
            sized_block([avro_text("a") + avro_text("1")]),
            b'{"@base64url":"AQgCYQIxAA"}',
        ),
        ("avro union", b"\2\2", b'{"@base64url":"AgI"}'),
        (
            "avro map named as the document",
            one_block([avro_text("@base64url") + avro_text("AA")]),
            b'{"@base64url":"AA"}',
        ),
        ("protobuf", b"\xf8\x07\x01", b'{"@base64url":"-AcB"}'),
    ],
)
def test_a_key_that_its_document_does_not_mean_is_listed_by_its_bytes(
    name: str, raw: bytes, document: bytes
) -> None:
    assert codec_of_keys(CASES[name][0]).to_json(raw) == document


def test_values_have_documents_only() -> None:
    nan = bytes.fromhex("7ff8000000000001")
    assert FORMATS["float64"].codec_with(None, None).to_json(nan) == b'"NaN"'


def test_text_of_keys_with_a_schema_id_is_refused() -> None:
    """Their text could mean the keys of many schemas, so it is no 404."""
    codec = codec_of_keys(avro_codec(CONFLUENT, FakeSchemas(id7=RECORD)))
    raw = framed(7, RECORD, {"id": 1, "region": "eu"})
    with pytest.raises(ValueError, match="send the key's record bytes"):
        codec.from_text(codec.to_json(raw))


@pytest.mark.parametrize(
    "text", [b'{"@base64url":"f_gAAAAAAAE="}', b'{"@base64url":"f"}', b'{"@base64url":"AAAA"}',
             b'{"@base64url":"f_gAAAAAAAA"}', b'{"@base64url": "f_gAAAAAAAE"}']
)  # fmt: skip
def test_other_documents_with_bytes_are_no_text_of_a_number(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a decimal float64"):
        codec_of_keys(CASES["float64"][0]).from_text(text)
