"""Tests of times in requests: the limits of 64 bits, open and inverted bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model.times import DAY, MAX_DURATION, duration_text, parse_duration, parse_time
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import HISTORIES, view
from tests.support.reference.tables import Record

MAX_TIME, MIN_TIME = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0), ("-1", -1), (str(MAX_TIME), MAX_TIME), (str(MIN_TIME), MIN_TIME),
        ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:00+01:00", 0),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)  # fmt: skip
def test_valid_times(text: str, ms: int) -> None:
    assert parse_time(text) == ms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (str(MAX_TIME + 1), "64 bits"), (str(MIN_TIME - 1), "64 bits"), ("9" * 40, "64 bits"),
        ("9" * 5000, "64 characters"), ("", "not a valid time"), ("1.5", "not a valid time"),
        ("soon", "not a valid time"), ("٣", "not a valid time"),
        ("1970-01-01T00:00:01", r"append Z or an offset such as \+01:00 \(in a URL: %2B01:00\)$"),
        *(
            (text, "is only a date: use 1970-01-02T00:00:00Z$")
            for text in ("1970-01-02", "1970-01-02Z", "1970-01-02+01:00", "1970-01-02-0100")
        ),
        ("1970-01-01T00:00:01 01:00", r"In a URL, write \+ as %2B$"),
    ],
)  # fmt: skip
def test_invalid_times_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1ms", 1), ("999ms", 999), ("1s", 1000), ("90s", 90_000), ("36h", 36 * 3_600_000),
        ("30d", 30 * DAY), ("1234567891ms", 1_234_567_891), ("999999999d", MAX_DURATION),
    ],
)  # fmt: skip
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    "text", ["", "1", "1 h", "-1h", "1w", "1.5h", "9" * 18 + "ms", "1000000000d"]
)
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a valid duration|is longer than 999999999 days"):
        parse_duration(text)


def items_of(cluster: Cluster, target: str) -> list[Any]:
    """The items of a response, which must be the same from all instances."""
    answers = [cluster.ask(id_, "GET", f"/views/orders/{target}", b"", {}) for id_ in cluster.nodes]
    assert {answer.status for answer in answers} == {200}, (target, answers[0].body)
    [items] = {str(answer.json()["items"]): answer.json()["items"] for answer in answers}.values()
    return list(items)


STORES = {
    "window": ("windows", [(n * 10, 0) for n in range(3)]),
    "session": ("sessions", [(n * 10, n * 10) for n in range(3)]),
    "versioned": ("versions", [()] * 3),
}


@pytest.mark.parametrize("partitioner", ["murmur2", "none"])
@pytest.mark.parametrize("store", HISTORIES)
@pytest.mark.slow
def test_greatest_and_inverted_bounds(tmp_path: Path, store: str, partitioner: str) -> None:
    resource, entries = STORES[store]
    cluster = Cluster(tmp_path, view(store=store, partitioner=partitioner))
    try:
        partition = 1 if partitioner == "none" else cluster.home(b"a")
        for n, at in enumerate(entries):
            cluster.write(Record(n, b"a", at, b"%d" % n, n * 10), partition)
        cluster.settle()
        targets = [f"keys/a/{resource}"] + ([resource] if store != "versioned" else [])
        for target in targets:
            for order in ("asc", "desc"):
                query = f"{target}?order={order}"
                every = items_of(cluster, query)
                assert len(every) == 3
                assert items_of(cluster, f"{query}&to={MAX_TIME}") == every
                assert items_of(cluster, f"{query}&from={MIN_TIME}") == every
                assert items_of(cluster, f"{query}&from={MIN_TIME}&to={MAX_TIME}") == every
                assert len(items_of(cluster, f"{query}&from=10&to={MAX_TIME}")) >= 2
                assert len(items_of(cluster, f"{query}&from={MIN_TIME}&to=0")) == 1
                for first, last in ((20, 0), (20, 10), (MAX_TIME, MIN_TIME), (1, -1)):
                    assert items_of(cluster, f"{query}&from={first}&to={last}") == []
            refused = cluster.ask("b1", "GET", f"/views/orders/{target}?to={MAX_TIME + 1}", b"", {})
            assert (refused.status, refused.json()["code"]) == (400, "bad-parameter")
            assert "64 bits" in refused.json()["detail"]
        if store == "versioned":
            for time, status in ((MAX_TIME, 200), (MIN_TIME, 404)):
                answer = cluster.ask("b1", "GET", f"/views/orders/keys/a?as_of={time}", b"", {})
                assert answer.status == status
    finally:
        cluster.close()


def test_a_session_may_match_inverted_bounds(tmp_path: Path) -> None:
    """As in Kafka Streams, the bounds are the earliest end and the latest start."""
    cluster = Cluster(tmp_path, view(store="session"))
    try:
        cluster.write(Record(0, b"a", (100, 0), b"1", 100), cluster.home(b"a"))
        cluster.settle()
        for target in ("keys/a/sessions", "sessions"):
            assert len(items_of(cluster, f"{target}?from=60&to=40")) == 1
            assert items_of(cluster, f"{target}?from=101&to=40") == []
            assert items_of(cluster, f"{target}?from=60&to=-1") == []
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("max_lag", str(MAX_TIME), 200), ("max_lag", str(MAX_TIME + 1), 400),
        ("max_lag", "-1", 400), ("max_lag", "9" * 5000, 400),
        ("min_offset", "0:0", 200), ("min_offset", f"2:{MAX_TIME}", 200),
        ("min_offset", "3:0", 503), ("min_offset", f"0:{MAX_TIME}", 503),
        ("min_offset", f"0:{MAX_TIME + 1}", 400), ("min_offset", "0:-1", 400),
    ],
)  # fmt: skip
def test_limits_of_freshness_parameters(tmp_path: Path, name: str, value: str, status: int) -> None:
    cluster = Cluster(tmp_path, view())
    try:
        key = next(k for k in (b"%d" % n for n in range(20)) if cluster.home(k) == 0)
        cluster.write(Record(0, key, (), b"1", 1), 0)
        cluster.settle()
        target = f"/views/orders/keys/{key.decode()}?{name}={value}"
        answer = cluster.ask("b1", "GET", target, b"", {})
        assert answer.status == status
        if status == 400:
            assert answer.json()["code"] == "bad-parameter"
    finally:
        cluster.close()
