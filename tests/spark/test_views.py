"""Each view's function, on small tables: late, duplicate, odd and malformed records."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from model.formats.registry import KEY_CODECS
from model.kinds.session import SessionLayout
from model.kinds.window import WindowLayout
from spark.raw_topics.weblog import REQUEST
from spark.views import VIEWS
from tests.spark.conftest import Records
from tests.support.spark.examples import departure, flight, request, timed

DEPARTURES = VIEWS["latest-departure"]
WORDS = VIEWS["word-count"]
WINDOWS = WindowLayout(KEY_CODECS["string"])
SESSIONS = SessionLayout(KEY_CODECS["string"])


def latest(rows: DataFrame) -> dict[str, Any]:
    return {row["key"]: json.loads(row["value"]) for row in DEPARTURES.result(rows).collect()}


def counts(rows: DataFrame) -> dict[str, int]:
    return {
        row["key"]: int.from_bytes(row["value"], "big", signed=True)
        for row in WORDS.result(rows).collect()
    }


def test_a_departure_is_schedule_and_delay_in_utc(records: Records) -> None:
    assert latest(records(flight())) == {"N14228": departure()}
    early = flight(dep_delay=-20, minute=0)
    assert latest(records(early))["N14228"]["time"] == "2013-01-01T09:40:00Z"
    # the local time of departure is before the scheduled one, on the next day
    late = flight(dep_time=30, sched_dep_time=2359, minute=59, dep_delay=31,
                  time_hour="2013-01-02T04:00:00Z")  # fmt: skip
    assert latest(records(late))["N14228"]["time"] == "2013-01-02T05:30:00Z"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 2, 1, 0, 0)])
def test_the_latest_is_that_of_the_greatest_time_in_any_order(
    records: Records, order: tuple[int, ...]
) -> None:
    flights = [flight(time_hour=f"2013-01-0{day}T10:00:00Z", dest=f"D{day}") for day in (1, 2, 3)]
    found = latest(records(*(flights[i] for i in order)))
    assert found == {"N14228": departure(time="2013-01-03T10:17:00Z", dest="D3")}


def test_of_equal_times_the_greatest_flight_wins(records: Records) -> None:
    ties = [flight(flight=9), flight(carrier="AA", flight=99999), flight(flight=10)]
    for order in (ties, ties[::-1]):
        assert latest(records(*order))["N14228"]["flight"] == "UA9"


def test_cancelled_flights_are_no_departures_and_no_errors(records: Records) -> None:
    later = {"time_hour": "2013-12-31T10:00:00Z", "dep_time": None, "dep_delay": None}
    rows = records(flight(), flight(**later), flight(tailnum="N1", **later))
    assert latest(rows) == {"N14228": departure()}
    assert DEPARTURES.rejected(rows).count() == 0


MALFORMED = {
    "no tail number": flight(tailnum=None),
    "empty tail number": flight(tailnum=""),
    "not JSON": (b"N1", b"{nope"),
    "trailing text": (b"N1", flight()[1] + b" text"),
    "two documents": (b"N1", flight()[1] + flight()[1]),
    "an array": (b"N1", b"[1, 2]"),
    "JSON null": (b"N1", b"null"),
    "no value": (b"N1", None),
    "empty value": (b"N1", b""),
    "not UTF-8": (b"N1", b'{"tailnum": "\xff"}'),
    "text for a number": flight(minute="15"),
    "number for text": flight(origin=5),
    "no time": flight(time_hour=None),
    "an invalid date": flight(time_hour="2013-02-30T10:00:00Z"),
    "departed without delay": flight(dep_delay=None),
    "minute 75": flight(minute=75),
    "beyond 32 bits": flight(dep_delay=2**40),
}


def test_malformed_flights_are_rejected_each_with_a_reason(records: Records) -> None:
    rows = records(flight(), *MALFORMED.values())
    rejected = {row["offset"]: row for row in DEPARTURES.rejected(rows).collect()}
    for offset, name in enumerate(MALFORMED, 1):
        assert offset in rejected, name
        assert rejected[offset]["reason"], name
        assert rejected[offset]["value"] == MALFORMED[name][1]
    assert len(rejected) == len(MALFORMED)
    assert latest(rows) == {"N14228": departure()}


def test_words_are_counted_in_lower_case(records: Records) -> None:
    rows = records((b"t", b"The lambda's the_end, the END."), (b"t", b"\xc3\xa9t\xc3\xa9 the 42"))
    found = counts(rows)
    assert found == {"the": 3, "lambda's": 1, "the_end": 1, "end": 1, "t": 1, "42": 1}


def test_lower_case_follows_unicode(records: Records) -> None:
    text = "\u212a \u0130 A\u03a3 \u01c5\u2167x"  # Kelvin, I with a dot, final sigma, title case
    assert text.lower() == "k i\u0307 a\u03c2 \u01c6\u2177x"
    assert counts(records((b"t", text.encode()))) == {"k": 1, "i": 1, "a": 1, "x": 1}


def test_a_record_read_twice_counts_twice_and_a_malformed_one_not(records: Records) -> None:
    rows = records(
        (None, b"word"), (b"t", b"word"), (b"t", b"\xff word"), (b"t", None), (b"t", b"")
    )
    assert counts(rows) == {"word": 2}
    assert {row["offset"] for row in WORDS.rejected(rows).collect()} == {2, 3}


def test_counts_are_int64_as_kafka_serializes_them(records: Records) -> None:
    rows = records((b"t", b"a " * 300))
    [row] = WORDS.result(rows).collect()
    assert bytes(row["value"]) == (300).to_bytes(8, "big")


def test_departures_are_a_time_series_per_aircraft(records: Records) -> None:
    cancelled = flight(dep_time=None, dep_delay=None, minute=59)
    early = flight(time_hour="1960-01-01T10:00:00Z", tailnum="N2")
    rows = records(flight(), flight(minute=55, dest="ORD"), cancelled, flight(), early)
    found = VIEWS["departures"].result(rows).collect()
    assert {row["bare_key"] for row in found} == {"N14228", "N2"}
    # in the order of writing: a duplicate is stored once
    table = {timed(WINDOWS, bytes(row["key"])): json.loads(row["value"]) for row in found}
    value = {"flight": "UA1545", "origin": "EWR", "dest": "IAH", "delay": 2}
    assert table == {
        ("N14228", "10:17:00"): value,
        ("N14228", "10:57:00"): {**value, "dest": "ORD"},
        ("N2", "10:17:00"): value,
    }
    # whole minutes, and no sequence
    assert all(bytes(row["key"]).endswith(bytes(4)) for row in found)


def test_of_simultaneous_departures_the_last_in_the_topic_is_kept(records: Records) -> None:
    rows = records(flight(flight=2), flight(flight=1))
    found = [
        json.loads(row["value"])["flight"] for row in VIEWS["departures"].result(rows).collect()
    ]
    assert found == ["UA2", "UA1"]


def test_airports_count_each_flight_once(records: Records) -> None:
    flights = [
        flight(),
        flight(),  # the same record again
        flight(dep_delay=50, tailnum="N2"),  # the same flight with other data
        flight(time_hour="2013-01-02T10:00:00Z"),
        flight(origin="JFK"),
        flight(carrier="AA"),
        flight(minute=16, dest="ORD"),
        flight(minute=17, dest="BOS", dep_time=None, dep_delay=None),
    ]
    for order in (flights, flights[::-1]):
        rows = VIEWS["airports"].result(records(*order)).collect()
        found = {row["key"]: json.loads(row["value"]) for row in rows}
        assert found == {"IAH": {"count": 4}, "ORD": {"count": 1}}


def test_a_flight_counts_for_the_destination_in_its_newest_record(records: Records) -> None:
    flights = [flight(dest="ORD"), flight(dest="IAH"), flight(dest="BOS", tailnum="N2")]
    for order, last in ((flights, "BOS"), (flights[::-1], "ORD")):
        rows = VIEWS["airports"].result(records(*order)).collect()
        assert [(row["key"], row["value"]) for row in rows] == [(last, '{"count":1}')]


# late lines are at the end, and some lines occur twice
REQUESTS = (
    request(1, "10:00:00"),
    request(2, "10:00:59", bytes=2**39),
    request(2, "10:00:59", bytes=2**39),
    request(3, "10:01:00"),
    request(4, "10:31:01"),
    request(5, "10:00:30", client="::1"),
    request(6, "09:59:59"),
    request(1, "10:00:00"),
)


def test_requests_and_bytes_of_a_host_are_counted_once_each(records: Records) -> None:
    for name, wanted in (
        ("requests-per-host", {"10.0.0.1": 5, "::1": 1}),
        ("bytes-per-host", {"10.0.0.1": 400 + 2**39, "::1": 100}),
    ):
        rows = VIEWS[name].result(records(*REQUESTS)).collect()
        found = {row["key"]: int.from_bytes(row["value"], "big", signed=True) for row in rows}
        assert found == wanted, name


def test_lines_that_differ_are_different_requests(records: Records) -> None:
    lines = [request(1, "10:00:00"), request(1, "10:00:00", bytes=7), request(1, "10:00:01")]
    for order in (lines, lines[::-1]):
        [row] = VIEWS["bytes-per-host"].result(records(*order, *order)).collect()
        assert int.from_bytes(row["value"], "big") == 207


def test_a_sum_beyond_64_bits_is_the_greatest_int64(session: SparkSession) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(f"{number}", "10.0.0.1", at, 2**62) for number in range(3)]
    requests = session.createDataFrame(rows, REQUEST)
    [row] = VIEWS["bytes-per-host"].derive(requests).collect()
    assert int.from_bytes(row["value"], "big") == 2**63 - 1
    [row] = VIEWS["visits"].derive(requests).collect()
    assert json.loads(row["value"]) == {"requests": 3, "bytes": 2**63 - 1}


def test_requests_are_counted_in_their_own_minute(records: Records) -> None:
    rows = VIEWS["requests-per-minute"].result(records(*REQUESTS)).collect()
    found = {timed(WINDOWS, bytes(row["key"])): int.from_bytes(row["value"], "big") for row in rows}
    assert found == {
        ("10.0.0.1", "09:59:00"): 1,
        ("10.0.0.1", "10:00:00"): 2,
        ("10.0.0.1", "10:01:00"): 1,
        ("10.0.0.1", "10:31:00"): 1,
        ("::1", "10:00:00"): 1,
    }
    assert {row["bare_key"] for row in rows} == {"10.0.0.1", "::1"}


def test_bytes_are_summed_in_the_minute_of_their_request(records: Records) -> None:
    rows = VIEWS["bytes-per-minute"].result(records(*REQUESTS)).collect()
    found = {timed(WINDOWS, bytes(row["key"])): int.from_bytes(row["value"], "big") for row in rows}
    assert found == {
        ("10.0.0.1", "09:59:00"): 100,
        ("10.0.0.1", "10:00:00"): 100 + 2**39,
        ("10.0.0.1", "10:01:00"): 100,
        ("10.0.0.1", "10:31:00"): 100,
        ("::1", "10:00:00"): 100,
    }
    assert {row["bare_key"] for row in rows} == {"10.0.0.1", "::1"}


def test_aircraft_have_the_names_of_other_topics(records: Records) -> None:
    def table(*rows: tuple[str, dict[str, Any]]) -> DataFrame:
        return records(*((key.encode(), json.dumps(value).encode()) for key, value in rows))

    planes = table(
        ("N14228", {"tailnum": "N14228", "manufacturer": "AIRBUS", "year": 1990}),
        ("N14228", {"tailnum": "N14228", "manufacturer": "BOEING", "model": "737", "year": None,
                    "seats": 149}),
        ("N9", {"tailnum": "N9", "manufacturer": "never departed"}),
    )  # fmt: skip
    airlines = table(("UA", {"carrier": "UA", "name": "United"}))
    airports = table(("IAH", {"faa": "IAH", "name": "Houston"}))
    flights = records(
        flight(), flight(tailnum="N2", carrier="AA", dest="BQN"), flight(minute=0, dest="ORD")
    )
    rows = VIEWS["aircraft"].result(flights, planes, airlines, airports).collect()
    assert {row["key"]: json.loads(row["value"]) for row in rows} == {
        "N14228": {
            **departure(airline="United", destination="Houston"),
            "manufacturer": "BOEING", "model": "737", "seats": 149,
        },
        "N2": departure(flight="AA1545", dest="BQN"),
    }  # fmt: skip


def test_half_an_hour_without_requests_ends_a_visit(records: Records) -> None:
    rows = VIEWS["visits"].result(records(*REQUESTS)).collect()
    found = {timed(SESSIONS, bytes(row["key"])): json.loads(row["value"]) for row in rows}
    assert found == {
        ("10.0.0.1", "09:59:59", "10:01:00"): {"requests": 4, "bytes": 300 + 2**39},
        ("10.0.0.1", "10:31:01", "10:31:01"): {"requests": 1, "bytes": 100},
        ("::1", "10:00:30", "10:00:30"): {"requests": 1, "bytes": 100},
    }


def test_lines_that_no_view_accepts_are_rejected_with_reasons(records: Records) -> None:
    wrong = {
        "request_id: missing": request(1, "10:00:00", request_id=""),
        "client: missing": request(1, "10:00:00", client=""),
        "time: not a time": request(1, "10:60"),
        "bytes: not within": request(1, "10:00:00", bytes=2**40),
        "bytes: not a whole number": request(1, "10:00:00", bytes=2**63),
        "bytes: missing": request(1, "10:00:00", bytes=None),
        "value: not JSON": (b"10.0.0.1", b'{"time":"2026-01-01T10:0'),
        "value: not UTF-8": (b"10.0.0.1", b'{"uri":"\xff"}'),
    }
    rows = records(*wrong.values(), request(1, "10:00:00", bytes=2**40 - 1))
    rejected = VIEWS["visits"].rejected(rows).orderBy("offset").collect()
    assert len(rejected) == len(wrong)
    for row, reason in zip(rejected, wrong, strict=True):
        assert row["reason"].startswith(reason)
