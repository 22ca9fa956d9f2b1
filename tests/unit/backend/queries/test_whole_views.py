"""Windows, sessions and versions over all keys; counts, and the greatest; against plain lists."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backend.admin import instance_status as status
from backend.queries.scans import partition_run as partition_runs
from backend.queries.scans import scan_budget
from backend.queries.whole_view import count, view_query
from backend.queries.whole_view.registry import VIEW_QUERIES
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import World, world
from tests.support.reference.whole_views import WHOLE_VIEWS

NDJSON = "application/x-ndjson"
KEYS = ["", "\0", "a", "a\0", "ab", "b", "é"]


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        yield made


@pytest.fixture(scope="module", params=["one at a time", "many"])
def small_chunks(request: pytest.FixtureRequest) -> Iterator[None]:
    """With few entries at a time versions of a key fall into several chunks."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "one at a time":
            patch.setattr(scan_budget, "_FIRST_CHUNK", 1)
            patch.setattr(partition_runs, "CHUNK_BYTES", 60)
            patch.setattr(scan_budget, "MAX_ENTRIES", 3)
        yield


def window_key(key: str, start: int, sequence: int = 0) -> bytes:
    return key.encode() + struct.pack(">qi", start, sequence)


def session_key(key: str, start: int, end: int) -> bytes:
    return key.encode() + struct.pack(">qq", end, start)


def items(made: World, target: str, instance: str = "b1") -> list[Any]:
    return [item for page in made.pages(target, instance) for item in page]


times = st.integers(-5, 40)
bounds = st.none() | times
spans = st.tuples(
    bounds, bounds, st.none() | st.sampled_from(KEYS), st.none() | st.sampled_from(KEYS)
)
quick = settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip


def target_of(kind: str, span: Any, limit: int, backwards: bool) -> str:
    names = ("from", "to", "key_from", "key_to")
    query = "".join(
        f"&{name}={quote(str(value), safe='')}"
        for name, value in zip(names, span, strict=True)
        if value is not None
    )
    return f"{kind}?limit={limit}&order={'desc' if backwards else 'asc'}{query}"


def within(key: str, low: str | None, high: str | None) -> bool:
    raw = key.encode()
    return (low is None or raw >= low.encode()) and (high is None or raw <= high.encode())


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    of = view(store="window", value="string", window_size=10, retention=30)  # type: ignore[arg-type]
    with world(tmp_path_factory.mktemp("windows"), of) as made:
        yield made


@quick
@given(
    st.sets(st.tuples(st.sampled_from(KEYS), times, st.integers(0, 1)), max_size=30),
    spans,
    st.integers(1, 12),
    st.booleans(),
    st.integers(0, 45),
)
@example({("a", -3, 0), ("a", 3, 0)}, (0, None, None, None), 1, False, 5)
def test_windows(
    windows: World,
    small_chunks: None,
    entries: set[tuple[str, int, int]],
    span: Any,
    limit: int,
    backwards: bool,
    stream_time: int,
) -> None:
    windows.clear()
    windows.put_all({window_key(*entry): b"v" for entry in entries})
    for store_partition in windows.store_partitions.values():
        store_partition.store.stream_time = stream_time
    first, last, low, high = span
    expected = [
        {"key": key, "start": start, "end": start + 10, "sequence": sequence, "value": "v"}
        for key, start, sequence in sorted(
            entries, key=lambda e: (e[0].encode(), e[1:]), reverse=backwards
        )
        if start > stream_time - 30
        and (first is None or start >= first)
        and (last is None or start <= last)
        and within(key, low, high)
    ]
    target = target_of("windows", span, limit, backwards)
    assert items(windows, target) == items(windows, target, "b2") == expected
    live = sum(start > stream_time - 30 for _, start, _ in entries)
    assert windows.ask("count?exact=true").json == {"count": live, "exact": True}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    of = view(store="session", value="string", retention=30)  # type: ignore[arg-type]
    with world(tmp_path_factory.mktemp("sessions"), of) as made:
        yield made


@quick
@given(
    st.sets(st.tuples(st.sampled_from(KEYS), times, st.integers(0, 9)), max_size=30),
    spans,
    st.integers(1, 12),
    st.booleans(),
    st.integers(0, 45),
)
@example({("a", -3, 0), ("a", 3, 0)}, (0, None, None, None), 1, False, 5)
def test_sessions(
    sessions: World,
    small_chunks: None,
    entries: set[tuple[str, int, int]],
    span: Any,
    limit: int,
    backwards: bool,
    stream_time: int,
) -> None:
    sessions.clear()
    sessions.put_all({session_key(k, start, start + size): b"v" for k, start, size in entries})
    for store_partition in sessions.store_partitions.values():
        store_partition.store.stream_time = stream_time
    first, last, low, high = span
    expected = [
        {"key": key, "start": end - size, "end": end, "value": "v"}
        for _, end, _, key, size in sorted(
            ((k.encode(), start + size, start, k, size) for k, start, size in entries),
            reverse=backwards,
        )
        if end > stream_time - 30
        and (first is None or end >= first)
        and (last is None or end - size <= last)
        and within(key, low, high)
    ]
    target = target_of("sessions", span, limit, backwards)
    assert items(sessions, target) == items(sessions, target, "b2") == expected


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    of = view(store="versioned", value="int64", retention=10)  # type: ignore[arg-type]
    with world(tmp_path_factory.mktemp("versions"), of) as made:
        yield made


@quick
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(KEYS), times), st.none() | st.integers(0, 9), max_size=40
    ),
    st.tuples(st.none() | st.sampled_from(KEYS), st.none() | st.sampled_from(KEYS)),
    st.integers(1, 4),
    st.booleans(),
)
def test_the_latest_versions(
    versions: World,
    small_chunks: None,
    entries: dict[tuple[str, int], int | None],
    span: Any,
    limit: int,
    backwards: bool,
) -> None:
    versions.clear()
    for (key, time), value in entries.items():
        raw = None if value is None else struct.pack(">q", value)
        versions.put(key.encode(), raw, timestamp=time)
    for store_partition in versions.store_partitions.values():
        store_partition.store.stream_time = 40  # what began before the horizon is valid still
    latest = {key: entries[key, time] for key, time in sorted(entries)}
    present = {key: value for key, value in latest.items() if value is not None}
    in_order = sorted(present, key=str.encode, reverse=backwards)
    expected = [{"key": k, "value": present[k]} for k in in_order if within(k, *span)]
    target = target_of("keys", (*span, None, None), limit, backwards)
    assert items(versions, target) == items(versions, target, "b2") == expected
    assert versions.ask("count?exact=true").json == {"count": len(present), "exact": True}
    for order, sign in (("desc", -1), ("asc", 1)):
        ranked = sorted(present, key=lambda k: (sign * present[k], k.encode()))
        found = versions.ask(f"top?order={order}&limit=3", "b2").json["items"]
        assert found == [{"key": k, "value": present[k]} for k in ranked[:3]]


def test_a_key_with_many_versions(versions: World) -> None:
    versions.clear()
    for time in range(1500):
        versions.put(b"a", struct.pack(">q", time), timestamp=time)
    versions.put(b"b", struct.pack(">q", 1), timestamp=1)
    for order in ("asc", "desc"):
        found = items(versions, f"keys?limit=1&order={order}")
        assert {item["key"]: item["value"] for item in found} == {"a": 1499, "b": 1}
        assert len(found) == 2


def test_retention_of_keys(tmp_path: Path) -> None:
    with world(tmp_path, view(retention=10)) as made:  # type: ignore[arg-type]
        for n in range(30):
            made.put(b"%02d" % n, b'{"n":%d}' % n, timestamp=n)
        for store_partition in made.store_partitions.values():
            store_partition.store.stream_time = 29
        live = [f"{n:02}" for n in range(19, 30)]
        assert [item["key"] for item in items(made, "keys?limit=3")] == live
        assert made.ask("count?exact=true", "b2").json["count"] == 11
        lowest = made.ask("top?by=n&order=asc&limit=1").json["items"]
        assert [item["key"] for item in lowest] == ["19"]


@pytest.mark.parametrize(
    ("store", "good"), [("window", "windows"), ("session", "sessions"), ("versioned", "keys")]
)
def test_the_store_decides_what_there_is(tmp_path: Path, store: str, good: str) -> None:
    with world(tmp_path, view(store=store)) as made:
        assert made.ask(good).json == {"items": [], "next": None}
        assert made.ask(good, accept=NDJSON).body == b""
        for other in {"keys", "windows", "sessions"} - {good}:
            said = made.ask(other)
            assert (said.status, said.json["code"]) == (400, "wrong-store")
            assert f"/views/orders/{good}" in said.json["detail"]
        if store != "versioned":
            assert made.ask("top?by=n").json == {"items": []}
            assert made.code(f"{good}?prefix=a", 400) == "unknown-parameter"
            assert made.code(f"{good}?from=yesterday", 400) == "bad-parameter"
            assert made.code(f"{good}?from=2026-01-01T00:00:00", 400) == "bad-parameter"


def test_times_of_people(windows: World) -> None:
    windows.clear()
    for store_partition in windows.store_partitions.values():
        store_partition.store.stream_time = None
    windows.put_all({window_key("a", hour * 3_600_000): b"v" for hour in range(24)})
    found = items(windows, "windows?from=1970-01-01T05:00:00%2B01:00&to=1970-01-01T06:00:00Z")
    assert [item["start"] // 3_600_000 for item in found] == [4, 5, 6]


# Counts


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("target", ["count", "count?exact=false", "count?exact=true"])
def test_few_entries_are_counted(orders: World, target: str, rounds: int) -> None:
    for _ in range(rounds):  # RocksDB's estimate counts a key each time it was written
        orders.put_all({b"%d" % n: b"1" for n in range(500)})
    for instance in ("b1", "b2"):
        assert orders.ask(target, instance).json == {"count": 500, "exact": True}


def test_the_count_of_many_entries_is_an_estimate_and_says_so(
    orders: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count, "MAX_COUNTED", 300)
    orders.put_all({b"%d" % n: b"1" for n in range(500)})
    for instance in ("b1", "b2"):
        assert orders.ask("count?exact=true", instance).json == {"count": 500, "exact": True}
        for target in ("count", "count?exact=false"):
            found = orders.ask(target, instance).json
            assert (found["exact"], found["estimate"]) == (False, True)
            assert 400 <= found["count"] <= 600


def test_an_instance_says_which_of_its_numbers_are_estimates(orders: World) -> None:
    said = status.partition_document(orders.store_partitions[0], 0.0, 1.0)
    assert {"size_bytes", "entries"} <= set(said)
    assert said["estimates"] == ["size_bytes", "entries"]


def test_counts_go_on_where_they_ended(orders: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_budget, "MAX_ENTRIES", 50)
    monkeypatch.setattr(partition_runs, "CHUNK_BYTES", 400)
    orders.put_all({b"%d" % n: b'{"n":%d}' % n for n in range(500)})
    assert orders.ask("count?exact=true", "b2").json["count"] == 500
    top = orders.ask("top?by=n&limit=3", "b2").json["items"]
    assert [item["value"]["n"] for item in top] == [499, 498, 497]


# The greatest

VALUES: dict[str, bytes] = {
    "a": b'{"x":{"y":3}}', "b": b'{"x":{"y":-2.5}}', "c": b'{"x":{"y":3.0}}',
    "d": b'{"x":{"y":"9"}}', "e": b'{"x":{"y":true}}', "f": b'{"x":9}', "g": b"9", "h": b"[]",
    "i": b'{"x":{"y":null}}', "j": b'{"x":{"y":12345678901234567}}',
    "k": b'{"x":{"y":12345678901234568}}', "l": b'{"y":1}', "m": b'{"x":{"y":[9]}}',
    "n": b'{"x.y":9}', "o": b'{"x":{"y":1e300}}',
}  # fmt: skip


def test_top_of_numbers_that_differ_beyond_64_bits(orders: World) -> None:
    orders.put_all({b"%d" % n: b'{"n":%d}' % (10**30 + n) for n in (3, 1, 2)})
    for instance in ("b1", "b2"):
        found = orders.ask("top?by=n", instance).body
        assert found == b'{"items":[%b]}' % b",".join(
            b'{"key":"%d","value":{"n":%d}}' % (n, 10**30 + n) for n in (3, 2, 1)
        )


def test_top(orders: World) -> None:
    orders.put_all({key.encode(): value for key, value in VALUES.items()})
    for instance in ("b1", "b2"):
        top = orders.ask("top?by=x.y", instance).json["items"]
        assert [item["key"] for item in top] == ["o", "k", "j", "a", "c", "b"]
        assert top[3] == {"key": "a", "value": {"x": {"y": 3}}}
        bottom = orders.ask("top?by=x.y&order=asc&limit=4", instance).json["items"]
        assert [item["key"] for item in bottom] == ["b", "a", "c", "j"]
        assert orders.ask("top?by=none", instance).json == {"items": []}


def test_top_of_numbers(tmp_path: Path) -> None:
    numbers = {"a": 1.5, "b": float("inf"), "c": float("nan"), "d": float("-inf"), "e": -0.0}
    with world(tmp_path, view(value="float64")) as made:
        made.put_all({k.encode(): struct.pack(">d", n) for k, n in numbers.items()})
        top = made.ask("top").json["items"]
        assert [item["key"] for item in top] == ["b", "a", "e", "d"]
        assert top[0]["value"] == "Infinity"
        assert made.code("top?by=x", 400) == "bad-parameter"


@pytest.mark.parametrize("value", ["string", "none", "bytes", "uuid"])
def test_top_of_what_has_no_numbers(tmp_path: Path, value: str) -> None:
    with world(tmp_path, view(value=value)) as made:
        assert made.code("top?by=x", 400) == "bad-parameter"
        assert made.code("top", 400) == "bad-parameter"


@pytest.mark.parametrize("partitioner", ["murmur2", "none"])
def test_a_query_of_a_whole_view_has_a_limit_of_time(
    tmp_path: Path, partitioner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_query, "WALK_BUDGET", -1.0)
    with world(tmp_path, view(partitioner=partitioner)) as made:
        made.put_all({b"%d" % n: b'{"n":1}' for n in range(9)})
        for query in ("count?exact=true", "top?by=n", "aggregate?value=n"):
            assert made.code(query, 503) == "took-too-long"


def test_every_query_of_a_whole_view_has_a_request() -> None:
    """With which other tests ask each of them."""
    assert set(WHOLE_VIEWS) == {query.name for query in VIEW_QUERIES}
