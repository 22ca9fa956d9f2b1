"""Strict JSON: well-formed values, and the reasons for rejecting others. Needs no session."""

from __future__ import annotations

import json
import sys
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from model.expressions.types import parse_field_type
from model.rows.json_fields import JsonField, fields_reader
from spark.formats.batches import MAX_BYTES, Rules, malformed, well_formed
from spark.formats.strict_json import JsonFormat
from spark.raw_topics.flights import FLIGHT, FLIGHTS
from tests.support.spark import json_table
from tests.support.spark.examples import FLIGHT as EXAMPLE
from tests.support.spark.examples import flight
from tests.vectors import time_cases

RULES = Rules(JsonFormat(FLIGHT), validate=FLIGHTS.validate)


def with_keys(*keys: bytes | None) -> pa.RecordBatch:
    found = batch(*[flight()[1]] * len(keys))
    return found.append_column("key", pa.array(keys, pa.binary()))


def test_keys_have_a_bound() -> None:
    """Regression: only keys with a format had one."""
    keys = [None, b"", b"k" * 10, b"k" * 11]
    rules = replace(RULES, max_key_bytes=10)
    [rejected] = malformed([with_keys(*keys)], rules)
    assert [(row["offset"], row["reason"]) for row in rejected.to_pylist()] == [
        (3, "key: more than 10 bytes")
    ]
    [good] = well_formed([with_keys(*keys)], rules, copied=["key"])
    assert good.column("key").to_pylist() == keys[:3]
    [rejected] = malformed([with_keys(*keys)], replace(rules, is_table=True))
    assert rejected.column("reason").to_pylist() == ["key: null", "key: more than 10 bytes"]
    [rejected] = malformed([with_keys(*keys)], RULES)
    assert rejected.num_rows == 0, "the view has no keys"


def batch(*values: bytes | None) -> pa.RecordBatch:
    offsets = pa.array(range(len(values)), pa.int64())
    return pa.RecordBatch.from_arrays([offsets, pa.array(values, pa.binary())], ["offset", "value"])


def reasons(*values: bytes | None) -> list[str | None]:
    """The reason for rejecting each value; None if it is well-formed."""
    [found] = malformed([batch(*values)], RULES)
    found_reasons = {row["offset"]: row["reason"] for row in found.to_pylist()}
    [good] = well_formed([batch(*values)], RULES)
    assert good.num_rows + len(found_reasons) == len(values)
    return [found_reasons.get(number) for number in range(len(values))]


def test_decoded_rows_have_only_the_fields_of_the_schema() -> None:
    [found] = well_formed([batch(flight()[1], b"{")], RULES)
    wanted = {name: EXAMPLE[name] for name in FLIGHT.names}
    wanted["time_hour"] = datetime(2013, 1, 1, 10, tzinfo=UTC)
    assert found.to_pylist() == [wanted]


def test_malformed_rows_are_unchanged() -> None:
    [found] = malformed([batch(flight()[1], b"\xff", None)], RULES)
    assert found.to_pylist() == [
        {"offset": 1, "value": b"\xff", "reason": "value: not UTF-8"},
        {"offset": 2, "value": None, "reason": "value: null"},
    ]


def test_texts_that_are_no_times_are_not_kept_in_memory() -> None:
    texts = [json.dumps({**EXAMPLE, "time_hour": f"{n}" + "x" * 90_000}) for n in range(100)]
    before = sys.getsizeof(texts[0])
    tracemalloc.start()
    try:
        found = reasons(*(text.encode() for text in texts))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert set(found) == {"time_hour: not a time like 2013-01-01T10:00:00Z"}
    assert kept < 20 * before


def test_batches_without_rows_of_a_kind_are_empty() -> None:
    for values in ([], [flight()[1]], [b"{"]):
        assert len(reasons(*values)) == len(values)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"unknown": {"deeply": [1]}}, None),
        ({"dep_time": None, "dep_delay": None}, None),
        ({"tailnum": None}, "tailnum: missing"),
        ({"tailnum": ""}, "tailnum: missing"),
        ({"tailnum": 5}, "tailnum: not a string"),
        ({"tailnum": ["N1"]}, "tailnum: not a string"),
        ({"carrier": None}, "carrier: missing"),
        ({"origin": True}, "origin: not a string"),
        ({"dest": {"a": 1}}, "dest: not a string"),
        ({"minute": "15"}, "minute: not a whole number of 32 bits"),
        ({"minute": 15.0}, "minute: not a whole number of 32 bits"),
        ({"minute": True}, "minute: not a whole number of 32 bits"),
        ({"minute": 60}, "minute: not within 0 to 59"),
        ({"minute": -1}, "minute: not within 0 to 59"),
        ({"dep_delay": 2**31 - 1}, None),
        ({"dep_delay": 2**31}, "dep_delay: not a whole number of 32 bits"),
        ({"dep_delay": -(2**31)}, None),
        ({"dep_delay": 10**30}, "dep_delay: not a whole number of 32 bits"),
        ({"dep_delay": None}, "dep_delay: missing"),
        ({"time_hour": None}, "time_hour: missing"),
        ({"time_hour": 1356998400}, "time_hour: not a string"),
        ({"time_hour": "2013-01-01T10:00:00+05:30"}, None),
    ],
)
def test_each_field_is_checked(changes: dict[str, object], reason: str | None) -> None:
    assert reasons(flight(**changes)[1]) == [reason]


@pytest.mark.parametrize(("time", "at"), time_cases.GOOD.items())
def test_times_of_the_usual_libraries(time: str, at: int) -> None:
    read = fields_reader([JsonField("t", parse_field_type("time"))])
    assert read(json.dumps({"t": time}).encode()) == {"t": at}


@pytest.mark.parametrize("time", time_cases.BAD)
def test_text_that_is_not_a_time_is_rejected(time: str) -> None:
    expected = "time_hour: not a time like 2013-01-01T10:00:00Z"
    assert reasons(flight(time_hour=time)[1]) == [expected]


@pytest.mark.parametrize("time", time_cases.WITHOUT_ZONE)
def test_a_time_without_a_zone_is_rejected(time: str) -> None:
    expected = "time_hour: a time without a zone: Z or an offset such as +01:00 is missing"
    assert reasons(flight(time_hour=time)[1]) == [expected]


@pytest.mark.parametrize(
    ("unit", "number", "found"),
    [
        ("s", "1795860000", time_cases.AT),
        ("s", "1795860000.123", time_cases.AT + 123_000),
        ("s", "1.79586e9", time_cases.AT),
        ("s", "-0.5", -500_000),
        ("s", "-62135596800", -62_135_596_800_000_000),
        ("ms", "1795860000123", time_cases.AT + 123_000),
        ("ms", "1795860000123.5", time_cases.AT + 123_500),
        ("us", "1795860000123456", time_cases.AT + 123_456),
        ("ns", "1795860000123456789", time_cases.AT + 123_456),
        ("ns", "-1", -1),
        ("s", "1795860000123", "t: not within the years 1 to 9999 as s since 1970"),
        ("ms", "1e300", "t: not within the years 1 to 9999 as ms since 1970"),
        ("us", "99999999999999999999", "t: not within the years 1 to 9999 as us since 1970"),
        ("ms", "1e400", "t: not a number"),
        ("ms", "true", "t: not a number"),
        ("ms", '"1795860000123"', "t: not a number"),
        ("ms", '"2026-11-28T10:00:00Z"', "t: not a number"),
        ("ms", "null", None),
    ],
)
def test_times_as_numbers(unit: str, number: str, found: int | str | None) -> None:
    read = fields_reader([JsonField("t", parse_field_type(f"time? {unit}"))])
    document = f'{{"t":{number}}}'.encode()
    if isinstance(found, str):
        with pytest.raises(ValueError, match=f"^{found}$"):
            read(document)
    else:
        assert read(document) == {"t": found}


def test_a_utc_offset_is_applied() -> None:
    value = flight(time_hour="2013-01-01T10:00:00-05:00")[1]
    [found] = well_formed([batch(value)], RULES)
    assert found["time_hour"].to_pylist() == [datetime(2013, 1, 1, 15, tzinfo=UTC)]


GOOD = flight()[1]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "value: not JSON: "),
        (b"{nope", "value: not JSON: "),
        (GOOD + b" x", "value: not JSON: "),
        (GOOD + GOOD, "value: not JSON: "),
        (GOOD.replace(b"15,", b"NaN,", 1), "value: not JSON: "),
        (GOOD.replace(b'"', b"'"), "value: not JSON: "),
        (b"[" * 2000, "value: not JSON: "),
        (b"null", "value: not a JSON object"),
        (b"[1, 2]", "value: not a JSON object"),
        (b'"text"', "value: not a JSON object"),
        (json.dumps({**EXAMPLE, "x": "x" * MAX_BYTES}).encode(), "value: more than 100000"),
    ],
)
def test_a_value_that_is_not_a_json_object_is_rejected(value: bytes, reason: str) -> None:
    [found] = reasons(value)
    assert found is not None
    assert found.startswith(reason)


def test_surrounding_white_space_is_accepted() -> None:
    assert reasons(b" \n" + GOOD + b"\r\n\t ") == [None]


@pytest.mark.parametrize("type_", json_table.TYPES)
def test_the_table_of_cases(type_: str) -> None:
    """The table holds for real-time views, too: tests/spark/realtime/test_json_values.py."""
    read = fields_reader([JsonField("v", parse_field_type(f"{type_}?"))])
    for case in json_table.cases():
        found: json_table.Outcome
        try:
            found = read(case.value)
        except ValueError as error:
            found = str(error)
        assert json_table.is_outcome(found, case.outcomes[type_]), (case.name, found)
