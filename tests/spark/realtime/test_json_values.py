"""Both decoders of JSON, Python's and Spark's, agree on every document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from model.times import NOT_A_TIME, WITHOUT_ZONE
from spark.errors import JobError
from spark.formats.decoders import JsonDecoder
from spark.formats.strict_json import MAX_JSON_BYTES, fields_reader
from spark.realtime.decoders import in_jvm
from spark.realtime.json_values import REASON, check_schema, decoded
from tests.spark.conftest import Records
from tests.vectors import time_cases

SCHEMA = StructType(
    [
        StructField("s", StringType()),
        StructField("b", BooleanType()),
        StructField("d", DoubleType()),
        StructField("i", IntegerType()),
        StructField("l", LongType()),
        StructField("t", TimestampType()),
        StructField("a b", StringType()),
        StructField("r", StringType(), nullable=False),
    ]
)
NAMES = [*SCHEMA.names, "other"]

NUMBERS = [
    "0", "-0", "-0.0", "1", "1.0", "1e5", "1.5E+3", "1E400", "-1e400", "1e-400", "4.9e-324",
    "1.7976931348623157e308", "1.7976931348623159e308", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551616", "123456789012345678901234567890", "2147483647", "2147483648",
    "-2147483649", "0.1000000000000000055511151231257827", "2.675", "01", "+1", ".5", "5.", "1e",
    "1e+", "-", "NaN", "Infinity", "-Infinity", "0x10", "1" + "0" * 308, "1" + "0" * 309,
    "9" * 400 + "e-200", "1e0000000000000001", "1e999999999999", "-0e0", "1" * 20 + ".5",
    "12345678901234567890123456789012345678.5", "3." + "0" * 40 + "1",
]  # fmt: skip
OTHERS = [
    '""', '"x"', '"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude00"', '"\\x41"',
    '"\x01"', '"\x7f"', '"a\\"b"', '"\\\\"', '"1e400"', '"a\\\\\\" 1e400"', '"Infinity"', '"\t"',
    '"\\/\\b\\f\\n\\r\\t"', '"\u2028é😀"', "'x'", "x", "true", "false", "null", "True", "nul",
    "[]", "{}", "[1,2]", '{"s":1}', "[1,]", '{"a":1,}', "{,}", "[[[]]]", "[1e400]",
    '{"\\ud800":1}', '"2013-01-01T10:00:00Z"', '"0000-01-01T00:00:00Z"',
    '"0001-01-01T00:00:00+05:00"', '"9999-12-31T23:59:59-18:00"', '"2013-02-30T10:00:00Z"',
    '"2013-01-01T24:00:00Z"', '"2013-01-01T10:00:60Z"', '"2013-01-01T10:00:00Z\\n"',
    '"2013-01-01T10:00:00+19:00"', '"2013-01-01T10:00:00-00:00"', '"2013-01-01T10:00:00.5Z"',
    '"٢٠١٣-01-01T10:00:00Z"',
]  # fmt: skip
TIMES = [*time_cases.GOOD, *time_cases.WITHOUT_ZONE, *time_cases.BAD]
# Escapes of surrogates: pairs, halves, and what only looks like them.
HALVES = [
    f'"{text}"'
    for text in (
        r"x\ud83d", r"\ude00x", r"\uD83D\uD83D\uDE00\uDE00", r"\ude00\ud83d", r"\\ud83d",
        r"\\\ud83d", r"\\\\ud83d\ude00", r"\\\ud83d\\\ude00", r"\n\ude00\u0041\ud83d\t",
        r"\ud83d\ude00\ud83d\ude00", r"\ud83dd83d\u005cud83d", r"\ud83", r"\ud83g", r"\x01\ud83d",
        "\x01d83dde00\\ud83d", "\\\\" * 20_000 + r"\ud83d", r"\ud83d" * 8_000,
        "\\" * 40_001 + "ud83d", r"\ud83d\ude00" * 4_000,
    )
]  # fmt: skip
DOCUMENTS = [
    '{"r":"x"} x', '{"r":"x"}]', '{"r":"x"},0]', '{"r":"x"},0] {', '{"r":"x"},{"r":"y"}',
    '{"r":"x"}] [{"r":"x"}', '{"r":"x"},0', '{"r":"x"}\n,0]\n', "{\"r\":\"x\"}'",
    '{"r":"x"},0] \'', '[{"r":"x"}]', "", "  ", "{", "}", '{"r":"x"', "null", '"x"', "5",
    '{"r":"x","r":"y"}', '{"r":"x","\\u0072":"y"}', '{"r":5,"r":"y"}', '{"r":"y","r":5}',
    '{"r":null}', "{}", '{"R":"x"}', '\ufeff{"r":"x"}', '\u00a0{"r":"x"}', '\x0b{"r":"x"}',
    ' \t\n\r{"r":"x"}\r\n\t ', '{"r":"x"}/*c*/', '{"r":"x"}#c', '/*c*/{"r":"x"}', '{r:"x"}',
    '{"r":"x"}\x00', "\x00", '{"r":"x",,"b":true}', '{"r":"x" "b":true}', '{"r","x"}',
    '{"r":"x","":5}', '{"r":"x"}\u2028', '{"r":"' + "x" * 90_000 + '"}',
    '{"r":"' + "x" * MAX_JSON_BYTES + '"}', '{"r":"x","z":' + "[" * 990 + "]" * 990 + "}",
    '{"r":"x","z":' + "[" * 1100 + "]" * 1100 + "}", '{"r":"x","z":"' + '\\"' * 30_000 + '"}',
    '{"r":"x","z":"' + "\\\\" * 30_000 + '","d":1e400}',
    r'{"\ud83d":1,"r":"x"}', r'{"r":"x","\ud83d":1,"\ude00":2}', r'{"r":"x","z":"\ud83d",}',
]  # fmt: skip
BYTES: list[bytes | None] = [
    None, b"\xff", b'{"r":"\xff"}', b'{"r":"\xed\xa0\x80"}', b'{"r":"\xc0\x80"}',
    b'{"r":"\xf4\x90\x80\x80"}', b'{"r":"\xef\xbf\xbf"}', b'{"r":"\xf0\x9f\x98"}',
    b'{"\xff":1,"r":"x"}', '{"r":"x"}'.encode("utf-16"),
]  # fmt: skip

Outcome = dict[str, Any] | str


def in_spark(session: SparkSession, documents: list[bytes | None]) -> list[Outcome]:
    """The fields of each document, or the reason; times are microseconds."""
    rows = [(n, None if each is None else bytearray(each)) for n, each in enumerate(documents)]
    values = session.createDataFrame(rows, "n int, value binary").coalesce(1)
    found = values.select("n", F.inline(decoded(F.col("value"), SCHEMA)))
    found = found.withColumn("t", F.unix_micros("t")).orderBy("n")
    return [row[REASON] or {name: row[name] for name in SCHEMA.names} for row in found.collect()]


def in_python(document: bytes | None) -> Outcome:
    try:
        return fields_reader(SCHEMA)(document)
    except ValueError as error:
        return str(error)


def compare(session: SparkSession, documents: list[bytes | None]) -> None:
    for document, found in zip(documents, in_spark(session, documents), strict=True):
        wanted = in_python(document)
        if isinstance(wanted, str):
            # The details of a syntax error differ.
            assert isinstance(found, str), (document, wanted, found)
            wanted, found = (each.split(": not JSON")[0] for each in (wanted, found))
        # as text, because -0.0 == 0.0
        assert repr(found) == repr(wanted), document


def test_values_of_each_field(session: SparkSession) -> None:
    compare(
        session,
        [
            f'{{"r":"x","{name}":{value}}}'.encode()
            for name in NAMES
            for value in (*NUMBERS, *OTHERS, *HALVES)
        ],
    )


def test_times(session: SparkSession) -> None:
    texts = [json.dumps({"r": "x", "t": text}).encode() for text in TIMES]
    compare(session, [*texts])
    for text, found in zip(TIMES, in_spark(session, [*texts]), strict=True):
        if text in time_cases.GOOD:
            assert isinstance(found, dict), (text, found)
            assert found["t"] == time_cases.GOOD[text], text
        else:
            why = WITHOUT_ZONE if text in time_cases.WITHOUT_ZONE else NOT_A_TIME
            assert found == f"t: {why}", text


def test_documents(session: SparkSession) -> None:
    compare(session, [*(each.encode() for each in DOCUMENTS), *BYTES])


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.datetimes().map(lambda at: at.replace(microsecond=0).isoformat() + "Z"),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=2),
)  # fmt: skip
OBJECTS = st.dictionaries(st.sampled_from(NAMES), LEAVES, max_size=6).map(
    lambda fields: {"r": "x", **fields}
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A JSON object, or one with some bytes replaced, removed or added."""
    is_ascii, has_spaces = draw(st.booleans()), draw(st.booleans())
    separators = (" , ", " : ") if has_spaces else None
    text = json.dumps(draw(OBJECTS), ensure_ascii=is_ascii, separators=separators)
    document = text.encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        return document
    at = draw(st.integers(0, len(document)))
    added = draw(st.one_of(st.binary(max_size=2), st.sampled_from([b'"', b"]", b"}", b"\\", b"0"])))
    return document[:at] + added + document[at + draw(st.integers(0, 2)) :]


@settings(
    deadline=None,
    max_examples=4,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.large_base_example],
)
@example([b"{}"])
@given(st.lists(documents(), min_size=150, max_size=200))
def test_any_document(session: SparkSession, some: list[bytes | None]) -> None:
    compare(session, some)


@pytest.mark.parametrize(
    "value",
    ["0." + "1" * 1100, "[" * 1010 + "]" * 1010, '{"' + "n" * 51_000 + '":1}'],
    ids=["long number", "deep", "long name"],
)
def test_documents_that_only_spark_rejects(session: SparkSession, value: str) -> None:
    """docs/spark/real-time.md lists them. They become dead letters."""
    document = f'{{"r":"x","other":{value}}}'.encode()
    assert isinstance(in_python(document), dict)
    assert in_spark(session, [document]) == ["value: not JSON"]


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (StructField("x", ArrayType(StringType())), "array<string>"),
        (StructField('a"b', StringType()), "name"),
        (StructField("", StringType()), "name"),
    ],
)
def test_other_schemas_are_refused(field: StructField, why: str) -> None:
    with pytest.raises(JobError, match=why):
        check_schema(StructType([field]))


@pytest.mark.parametrize("record", [("key", "offset"), ("offset",)])
def test_long_keys(records: Records, record: tuple[str, ...]) -> None:
    decoder = JsonDecoder(StructType([StructField("s", StringType())]), record=record)
    keys = (None, b"k" * MAX_JSON_BYTES, b"k" * (MAX_JSON_BYTES + 1))
    rows = records(*((key, b"{}") for key in keys))
    found = []
    for each in (decoder, in_jvm(decoder)):
        accepted = each.well_formed(rows).select("offset").collect()
        rejected = each.malformed(rows).select("offset", "reason").collect()
        found.append(([row.offset for row in accepted], [tuple(row) for row in rejected]))
    assert found[0] == found[1]
    assert [offset for offset, _ in found[0][1]] == ([2] if "key" in record else [])
