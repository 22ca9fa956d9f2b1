"""The format of keys and values."""

from __future__ import annotations

import struct
from random import Random

import pytest

from model.formats.registry import KEY_CODECS
from queryable.cli.inspection.formats import infer_format
from queryable.cli.inspection.inference import Confidence
from tests.support.in_process.avro_examples import framed
from tests.support.in_process.protobuf_examples import framed as framed_message
from tests.support.in_process.protobuf_examples import order
from tests.unit.queryable.cli.inspection.records import (
    KEYS,
)
from tests.vectors.frames import frames

FRAMES = frames()


def numbers(kind: str) -> list[bytes]:
    """Numbers as Java's serializers write them."""
    texts = [b"%d" % n for n in range(-10, 30)]
    return [KEY_CODECS[kind].from_text(text) for text in texts]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([text.encode() for text in KEYS] * 3, "string"),
        ([b"LEBL", b"KJFK", b"EDDF"], "string"),
        ([f"{n:08}-0000-4000-8000-0123456789aB".encode() for n in range(20)], "uuid"),
        ([b'{"n": %d}' % n for n in range(20)], "json"),
        ([b'"a"', b"[]", b"1"], "json"),
        ([b"17", b"4"], "string"),
        (numbers("int32"), "int32"),
        (numbers("int64"), "int64"),
        (numbers("float64"), "float64"),
        ([struct.pack(">d", n / 7) for n in range(20)], "float64"),
        ([b'\0\0\0\0\7{"a":1}'], "json"),
        ([b"\xff\xfe\0", b"\x80"], "bytes"),
        ([], "bytes"),
    ],
)
def test_most_likely_format(samples: list[bytes], expected: str) -> None:
    assert infer_format(samples, is_key=False).value == expected


def test_floats_are_not_mistaken_for_integers() -> None:
    result = infer_format([struct.pack(">f", n / 2) for n in range(20)], is_key=False)
    assert (result.value, result.confidence) == ("bytes", Confidence.GUESS)
    assert "Serdes.Float" in result.reason
    random = Random(7)
    hashes = [struct.pack(">i", random.randrange(-(1 << 31), 1 << 31)) for _ in range(20)]
    assert infer_format(hashes, is_key=False).confidence is Confidence.GUESS


def test_json_with_confluents_frame() -> None:
    for tool in ("confluent-kafka JSONSerializer", "Apicurio Legacy4ByteIdHandler"):
        found = infer_format([FRAMES[tool].record] * 20, is_key=False)
        assert (found.value, found.schema) == ("json", "confluent")
        assert found.confidence is Confidence.CERTAIN


def avro_number(number: int) -> bytes:
    return framed(7, "int", number)


def test_a_frame_names_the_schemas_that_say_the_format() -> None:
    found = infer_format([b"\0\0\0\0\7\x06abc", b"\0\0\0\0\7\x08abcd"], is_key=False)
    assert (found.value, found.schema, found.schema_ids) == (None, "confluent", (7,))
    names = ["AvroSerializer", "ProtobufSerializer"]
    records = [FRAMES[f"confluent-kafka {name}"].record for name in names]
    found = infer_format([*[records[1]] * 20, records[0]], is_key=False)
    assert (found.value, found.schema_ids) == (None, (3, 2)), "the most frequent first"


def test_frames_are_not_mistaken_for_integers() -> None:
    """Regression: keys of 8 bytes, such as an id from 8,192 in Avro, were int64 for certain."""
    ids = [avro_number(8192 + n) for n in range(20)]
    assert {len(key) for key in ids} == {8}
    assert infer_format(ids, is_key=True).schema_ids == (7,)
    assert infer_format(ids, is_key=True).value is None
    messages = [framed_message(3, order(order_id=n)) for n in range(1, 21)]
    assert infer_format(messages, is_key=False).schema_ids == (3,)
    assert infer_format(messages, is_key=False).value is None
    # a few of them, and 3 bytes that begin alike, may be both
    texts = [framed(7, "string", text) for text in ("ab", "cd", "ef")]
    for samples in (ids[:3], texts, [framed(7, "int", 9000)]):
        found = infer_format(samples, is_key=True)
        assert (found.value, found.confidence, found.schema_ids) == (
            "int64", Confidence.GUESS, (7,)
        )  # fmt: skip
        assert "or framed by Confluent's serializers, schema 7" in found.reason


def test_a_few_frames_of_8_bytes_may_be_rows() -> None:
    """Regression: rows (1, 0) and (99, null), as Kafka Connect writes them in Avro, were integers
    for certain, and the registry was not asked."""
    samples = [bytes.fromhex(each) for each in ("0000000007020200", "0000000007c60100")]
    found = infer_format(samples, is_key=False)
    assert (found.value, found.confidence, found.schema_ids) == ("int64", Confidence.GUESS, (7,))


def test_integers_are_not_mistaken_for_frames() -> None:
    for numbers in (
        range(1_700_000_000_000, 1_700_000_000_000 + 500 * 65_536, 65_536),  # times
        range(8192, 9000),
        range(1 << 40, (1 << 40) + 500 * 70_001, 70_001),
    ):
        samples = [number.to_bytes(8, "big") for number in numbers]
        found = infer_format(samples, is_key=True)
        assert (found.value, found.confidence) == ("int64", Confidence.CERTAIN)
        assert found.schema_ids == ()


@pytest.mark.parametrize("is_key", [True, False])
def test_frames_that_are_not_read_are_named(is_key: bool) -> None:
    for tool in ("AWS Glue, NONE", "AWS Glue, ZLIB", "Apicurio DefaultIdHandler"):
        found = infer_format([FRAMES[tool].record] * 20, is_key)
        assert (found.value, found.schema_ids, found.confidence) == (None, (), Confidence.GUESS)
        assert tool.split()[0] in found.reason
        assert "not read" in found.reason
