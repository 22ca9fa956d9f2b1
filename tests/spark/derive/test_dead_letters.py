"""Which records of a derived view become dead letters, and why."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from model.expressions.types import MAX_SECONDS
from tests.spark.derive.support import START, Raw, as_bytes, frame, raw, streamed, table, view_of


def test_what_becomes_a_dead_letter(session: SparkSession) -> None:
    view = view_of(
        """\
[views.x.derive]
from = "t"
require = "a <> 'bad'"
where = "b is not null"
key = ["a", "b"]
latest = "n"
[views.x.derive.fields]
a = "string"
b = "string?"
n = "int 1..9"
x = "double?"
d = "decimal(1)?"
f = "boolean?"
"""
    )
    good = {"a": "x", "b": "y", "n": 1}
    cases: list[tuple[bytes | None, str | None]] = [
        (json.dumps(good | changes).encode(), reason)
        for changes, reason in [
            ({}, None),
            ({"b": None}, None),
            ({"b": None, "a": "|"}, None),  # does not count, so its key does not matter
            ({"a": None}, "a: missing"),
            ({"a": 5}, "a: not a string"),
            ({"a": "bad"}, "require: not true"),
            ({"n": 10}, "n: not within 1 to 9"),
            ({"n": "1"}, "n: not a whole number of 32 bits"),
            ({"a": "x|"}, "key: a part has the separator |"),
            ({"a": "é" * 5000}, "key: more than 10000 bytes"),
            ({"x": "1"}, "x: not a number"),
            ({"d": 1.25}, "d: more than 1 digits after the point"),
            ({"d": 1e15}, "d: more than 15 digits"),
            ({"f": 1}, "f: not true or false"),
        ]
    ]
    cases += [(b"{", "value: not JSON"), (None, "value: null"), (b"\xff", "value: not UTF-8")]
    given = frame(session, [(b"k", value, START) for value, _ in cases])
    found = {row["offset"]: row for row in view.rejected(given).collect()}
    for offset, (value, reason) in enumerate(cases):
        assert (reason is None) == (offset not in found), value
        if reason is not None:
            assert found[offset]["reason"].startswith(reason)
            assert found[offset]["value"] == value
            assert found[offset]["key"] == b"k"
    assert list(table(view.result(given).collect())) == [b"x|y"]


def test_a_text_with_an_unusable_word_is_a_dead_letter(session: SparkSession) -> None:
    view = view_of(
        """\
[views.x.derive]
from = "t"
each = { word = "regexp_extract_all(text, '[a-z]+')" }
where = "word <> 'the' and record_key = 'k'"
key = "word"
count = true
"""
    )
    values = [b"the cat the hat", b"long " + b"a" * 10_001, b"\xff", None, b"", b"1 2"]
    given = frame(session, [*((b"k", value, START) for value in values), (None, b"other", START)])
    rejected = {row["offset"]: row["reason"] for row in view.rejected(given).collect()}
    assert rejected == {
        1: "key: more than 10000 bytes", 2: "value: not UTF-8", 3: "value: null",
    }  # fmt: skip
    found = table(view.result(given).collect())
    assert found == {b"cat": as_bytes((1).to_bytes(8, "big")), b"hat": (1).to_bytes(8, "big")}


def test_a_value_that_kafka_would_refuse_is_a_dead_letter(session: SparkSession) -> None:
    view = view_of(
        '[views.x.derive]\nfrom = "t"\nfields = { k = "string", s = "string" }\nkey = "k"\n'
        'top_k = { k = 100, by = "s" }'
    )
    given = [raw({"k": "k", "s": "x" * length}, START) for length in (4000, 5000)]
    [rejected] = view.rejected(frame(session, given)).collect()
    assert (rejected["offset"], rejected["reason"]) == (1, "top_k: more than 5000 bytes")


def test_times_that_are_far_apart_are_dead_letters(session: SparkSession) -> None:
    """Regression: a difference of more than 64 bits made the query fail after each restart."""
    view = view_of(
        f"""\
[views.x.derive]
from = "t"
fields = {{ n = "long -{MAX_SECONDS}..{MAX_SECONDS}" }}
time = "timestamp_seconds(n)"
lateness = "1h"
window = "1m"
key = "n"
latest = "record_timestamp"
"""
    )
    timestamps = [-1000, 0, START * 10**6, 2**63 - 1000, -(2**62)]
    numbers = [-MAX_SECONDS, -62_135_596_800, 0, START, MAX_SECONDS]
    cases = [(number, timestamp) for number in numbers for timestamp in timestamps]
    given = frame(session, [raw({"n": number}, START) for number, _ in cases])
    micros = F.element_at(F.array(*(F.lit(at) for _, at in cases)), F.col("offset").cast("int") + 1)
    given = given.withColumn("timestamp", F.timestamp_micros(micros))
    bounds = view.streams[0].decoder.event_time
    assert bounds is not None
    rejected = view.rejected(given).select("offset", "reason")
    found = {row["offset"]: row["reason"] for row in rejected.collect()}
    for offset, (number, timestamp) in enumerate(cases):
        reason = found.get(offset)
        assert reason == bounds.violation(number * 10**6, timestamp), (number, timestamp)
    accepted = [number for offset, (number, _) in enumerate(cases) if offset not in found]
    assert accepted == [START]
    assert len(table(view.result(given).collect())) == 1


def test_the_time_of_a_record_that_does_not_count_does_not_matter(
    session: SparkSession, tmp_path: Path
) -> None:
    """Regression: it moved the watermark, and Spark dropped all later rows."""
    view = view_of(
        """\
[views.x.derive]
from = "t"
fields = { id = "string", kind = "string", words = "string", at = "time", minute = "int 0..59" }
time = "timestamp_seconds(unix_seconds(at) + 60 * minute)"
each = { word = "regexp_extract_all(words, '[a-z]+')" }
where = "kind = 'a'"
identity = ["id", "kind", "words", "at", "minute"]
key = "word"
count = true
"""
    )

    def line(id_: str, kind: str, at: str) -> Raw:
        fields = {"id": id_, "kind": kind, "words": "one two", "at": at, "minute": 0}
        return raw(fields, START)

    batches = [
        [line("1", "b", "9999-12-31T10:00:00Z"), line("2", "a", "2026-01-01T10:00:00Z")],
        [line("3", "a", "2026-01-01T10:00:00Z")],
        [line("4", "a", "2026-01-01T10:00:00Z")],
    ]
    found = streamed(session, view, batches, tmp_path)
    assert found == {word: (3).to_bytes(8, "big") for word in (b"one", b"two")}
