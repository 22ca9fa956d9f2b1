"""Both decoders of JSON, Python's and Spark's, agree on every document, and with the table."""

from __future__ import annotations

import json
from collections.abc import Sequence

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

from model.expressions.types import parse_field_type
from model.times import NOT_A_TIME, WITHOUT_ZONE, parse_instant
from spark.errors import JobError
from spark.event_time.bounds import EventTimeBounds
from spark.formats.batches import MAX_BYTES, REASON
from spark.formats.decoders import JsonDecoder
from spark.formats.strict_json import JsonFormat, spark_type
from spark.realtime.decoders import in_jvm
from spark.realtime.json_values import check_schema, decoded
from tests.spark.conftest import Records
from tests.support.spark import json_table
from tests.support.spark.json_table import Outcome
from tests.vectors import time_cases
from tests.vectors.json_cases import STRICTER

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

TIMES = [*time_cases.GOOD, *time_cases.WITHOUT_ZONE, *time_cases.BAD]
# Texts that are not in the table because they are long, and what only this decoder may confuse: a
# mark in the text, JSON in texts, times.
LONG = [
    '{"r":"' + "x" * 90_000 + '"}', '{"r":"' + "x" * MAX_BYTES + '"}',
    '{"r":"x","z":"' + '\\"' * 30_000 + '"}', '{"r":"x","z":"' + "\\\\" * 30_000 + '","d":1e400}',
    *(f'{{"r":"{text}"}}' for text in (
        "\x01d83dde00\\ud83d", "\\\\" * 20_000 + r"\ud83d", r"\ud83d" * 8_000,
        "\\" * 40_001 + "ud83d", r"\ud83d\ude00" * 4_000,
    )),
]  # fmt: skip


def in_spark(session: SparkSession, documents: list[bytes | None]) -> list[Outcome]:
    """The fields of each document, or the reason; times are microseconds."""
    [found] = decoded_as(session, documents, [SCHEMA])
    return found


def decoded_as(
    session: SparkSession, documents: Sequence[bytes | None], schemas: Sequence[StructType]
) -> list[list[Outcome]]:
    """As ``in_spark``, for each schema. One job computes them."""
    rows = [(n, None if each is None else bytearray(each)) for n, each in enumerate(documents)]
    values = session.createDataFrame(rows, "n int, value binary").coalesce(1)
    columns = []
    for number, schema in enumerate(schemas):
        row = F.element_at(decoded(F.col("value"), schema), 1)
        fields = (
            (F.unix_micros(row[name]) if name == "t" else row[name]).alias(name)
            for name in schema.names
        )
        columns.append(F.struct(row[REASON].alias(REASON), *fields).alias(f"_{number}"))
    found = values.select("n", *columns).orderBy("n").collect()
    return [
        [
            row[REASON] or {name: row[name] for name in schema.names}
            for row in (each[f"_{number}"] for each in found)
        ]
        for number, schema in enumerate(schemas)
    ]


def in_python(document: bytes | None) -> Outcome:
    if document is None:
        return "value: null"
    try:
        return JsonFormat(SCHEMA).decoder()(document)
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


def test_the_table_of_cases(session: SparkSession) -> None:
    """As for the decoder in Python: tests/unit/spark/formats/test_strict_json.py."""
    types = {name: spark_type(parse_field_type(name)) for name in json_table.TYPES}
    cases = [*json_table.cases()]
    schemas = [StructType([StructField("v", of)]) for of in types.values()]
    found = decoded_as(session, [case.value for case in cases], schemas)
    for type_, outcomes in zip(types, found, strict=True):
        for case, outcome in zip(cases, outcomes, strict=True):
            wanted = "value: not JSON" if case.name in STRICTER else case.outcomes[type_]
            assert json_table.is_outcome(outcome, wanted), (type_, case.name, outcome, wanted)


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


def test_long_documents_and_nulls(session: SparkSession) -> None:
    compare(session, [None, *(each.encode() for each in LONG)])


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


def test_a_long_name_is_refused_only_by_spark(session: SparkSession) -> None:
    """docs/spark/real-time.md lists it, and `STRICTER`. They become dead letters."""
    document = b'{"r":"x","%b":1}' % (b"n" * 51_000)
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
    keys = (None, b"k" * MAX_BYTES, b"k" * (MAX_BYTES + 1))
    rows = records(*((key, b"{}") for key in keys))
    found = []
    for each in (decoder, in_jvm(decoder)):
        accepted = each.well_formed(rows).select("offset").collect()
        rejected = each.malformed(rows).select("offset", "reason").collect()
        found.append(([row.offset for row in accepted], [tuple(row) for row in rejected]))
    assert found[0] == found[1]
    assert [offset for offset, _ in found[0][1]] == ([2] if "key" in record else [])


def test_event_times_far_from_the_timestamps_of_their_records(records: Records) -> None:
    """Regression: a time long after its record's timestamp was late."""
    bounds = EventTimeBounds("t", 60, 120)
    schema = StructType([StructField("t", TimestampType())])
    decoder = JsonDecoder(schema, event_time=bounds, record=("offset",))
    times = ["0001-01-01T00:00:00Z", "1970-12-31T23:59:59Z", "2026-01-01T10:00:00Z",
             "2260-12-31T23:59:59Z", "9999-12-31T23:59:59Z"]  # fmt: skip
    instants = [parse_instant(text) for text in times]
    pairs = [
        (number, instant + away)
        for number, instant in enumerate(instants)
        for away in (-120_000_001, -120_000_000, 0, 60_000_000, 60_000_001)
    ]
    extremes = (-(2**63), -(2**62), 2**62, 2**63 - 1)
    pairs += [(number, timestamp) for number in range(len(times)) for timestamp in extremes]
    values = [f'{{"t":"{times[number]}"}}'.encode() for number, _ in pairs] + [b"{}"]
    timestamps = [timestamp for _, timestamp in pairs] + [0]
    micros = F.element_at(F.array(*map(F.lit, timestamps)), F.col("offset").cast("int") + 1)
    rows = records(*((b"k", value) for value in values))
    rows = rows.withColumn("timestamp", F.timestamp_micros(micros))
    wanted = {
        offset: reason
        for offset, (number, timestamp) in enumerate(pairs)
        if (reason := bounds.violation(instants[number], timestamp)) is not None
    }
    for each in (decoder, in_jvm(decoder)):
        rejected = each.malformed(rows).select("offset", "reason").collect()
        assert {row.offset: row.reason for row in rejected} == wanted
        accepted = [row.offset for row in each.well_formed(rows).select("offset").collect()]
        assert accepted == [n for n in range(len(values)) if n not in wanted]
