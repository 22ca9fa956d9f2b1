"""`top` of windows and sessions, against plain sums; also of keys that are in several responses."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backend.queries.scans import partition_run, scan_budget
from backend.queries.whole_view import top as tops
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.world import World, world

KEYS = ["", "\0", "a", "a\0", "b", "é"]
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.1, 0.25, -2.5, 2**70])
Entries = dict[tuple[str, int], Any]


@pytest.fixture(scope="module", params=["one at a time", "many"])
def slices(request: pytest.FixtureRequest) -> Iterator[None]:
    """With few entries in a response, those of a key are in several responses."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "one at a time":
            patch.setattr(scan_budget, "_FIRST_CHUNK", 1)
            patch.setattr(partition_run, "CHUNK_BYTES", 60)
            patch.setattr(scan_budget, "MAX_ENTRIES", 3)
        yield


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    of = replace(view(store="window"), window_size=10)
    with world(tmp_path_factory.mktemp("windows"), of) as made:
        yield made


@pytest.fixture
def words(tmp_path: Path) -> Iterator[World]:
    """How often each word was used in each of three months."""
    of = replace(view(store="window", value="int64"), window_unit="month", window_zone="UTC")
    with world(tmp_path, of) as made:
        counts = {("the", 1): 7, ("the", 2): 8, ("a", 1): 9, ("lambda", 1): 1, ("a", 3): 100}
        made.put_all({
            window_key(word, month): struct.pack(">q", count)
            for (word, month), count in counts.items()
        })  # fmt: skip
        yield made


def window_key(key: str, start: int) -> bytes:
    return key.encode() + struct.pack(">qi", start, 0)


def put(made: World, entries: Entries) -> None:
    made.clear()
    made.put_all(
        {window_key(*entry): json.dumps({"n": value}).encode() for entry, value in entries.items()}
    )


def expected(
    entries: Entries, first: int | None, last: int | None, descending: bool, limit: int
) -> list[Any]:
    sums: dict[str, Any] = {}
    for (key, start), value in entries.items():
        is_number = type(value) in (int, float)
        if is_number and (first is None or start >= first) and (last is None or start <= last):
            sums.setdefault(key, []).append(value)
    items = []
    for key, numbers in sums.items():
        exact = sum(map(Fraction, numbers), Fraction())
        total = int(exact) if all(type(n) is int for n in numbers) else float(exact)
        # ranked as it is written: 2^70 as a double has fewer digits than as a whole number
        rank = Decimal(repr(total))
        rank = rank.copy_negate() if descending else rank
        items.append((rank, key.encode(), {"key": key, "value": total}))
    return [item for _, _, item in sorted(items, key=lambda item: item[:2])[:limit]]


@settings(
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(KEYS), st.integers(-2, 12)),
        NUMBERS | NUMBERS | st.sampled_from([None, True, "text"]),
        max_size=40,
    ),
    st.none() | st.integers(-3, 12),
    st.none() | st.integers(-3, 12),
    st.booleans(),
    st.integers(1, 7),
)
@example({("a", n): 1 for n in range(12)} | {("b", n): 2 for n in range(5)}, 1, 10, True, 1)
def test_sums_of_keys(
    windows: World,
    slices: None,
    entries: Entries,
    first: int | None,
    last: int | None,
    descending: bool,
    limit: int,
) -> None:
    put(windows, entries)
    target = f"top?by=n&limit={limit}&order={'desc' if descending else 'asc'}"
    target += "".join(
        f"&{name}={time}" for name, time in (("from", first), ("to", last)) if time is not None
    )
    within = [
        value
        for (_, start), value in entries.items()
        if (first is None or start >= first) and (last is None or start <= last)
    ]
    has_numbers = any(type(value) in (int, float) for value in within)
    for instance in ("b1", "b2"):
        if not has_numbers and "text" in within:
            assert windows.code(target, 400, instance=instance) == "bad-parameter"
        else:
            found = json.loads(windows.ask(target, instance).body)
            assert found == {"items": expected(entries, first, last, descending, limit)}


@pytest.mark.parametrize(
    ("query", "items"),
    [
        ("", [("a", 109), ("the", 15), ("lambda", 1)]),
        ("to=2", [("the", 15), ("a", 9), ("lambda", 1)]),
        ("to=2&order=asc&limit=2", [("lambda", 1), ("a", 9)]),
        ("from=2&to=2", [("the", 8)]),
        ("from=4", []),
        ("order_by=max", [("a", 100), ("the", 8), ("lambda", 1)]),
        ("order_by=min&limit=1", [("a", 9)]),
        ("order_by=avg", [("a", 54.5), ("the", 7.5), ("lambda", 1.0)]),
        ("order_by=count", [("a", 2), ("the", 2), ("lambda", 1)]),
        ("order_by=entries&order=asc&limit=1", [("lambda", 1)]),
    ],
)
def test_each_number_of_a_key(words: World, query: str, items: list[Any]) -> None:
    wanted = {"items": [{"key": key, "value": value} for key, value in items]}
    assert words.ask(f"top?{query}", "b1").json == wanted
    assert words.ask(f"top?{query}", "b2").json == wanted


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_keys_with_equal_numbers_are_in_key_order(windows: World, slices: None, order: str) -> None:
    """Regression: keys at the ends of a response had another rank than those between them."""
    keys = [f"{n:02}" for n in range(99) if windows.partition(b"%02d" % n) == 0][:5]
    put(windows, {(key, start): 0.1 for key in keys for start in range(2)})
    found = json.loads(windows.ask(f"top?by=n&order={order}&limit=3", "b2").body)
    assert found["items"] == [{"key": key, "value": 0.2} for key in keys[:3]]


def test_a_key_in_two_partitions_has_one_sum(words: World) -> None:
    elsewhere = (words.partition(b"the") + 1) % len(words.store_partitions)
    words.put(window_key("the", 1), struct.pack(">q", 100), timestamp=8, partition=elsewhere)
    for store_partition in words.store_partitions.values():
        store_partition.metadata = replace(store_partition.metadata, mispartitioned=1)
    assert words.ask("top?limit=2&to=2").json["items"] == [
        {"key": "the", "value": 108},
        {"key": "a", "value": 9},
    ]


def test_sums_of_decimals_are_compared_with_all_digits(tmp_path: Path) -> None:
    of = replace(view(store="window", unwrap="debezium"), window_size=10)
    with world(tmp_path, of) as made:
        prices = {"a": "10000000000000000.01", "b": "10000000000000000.03", "c": "0.30"}
        made.put_all({
            window_key(key, start): b'{"n":"%b"}' % price.encode()
            for key, price in prices.items()
            for start in (1, 2)
        })  # fmt: skip
        found = json.loads(made.ask("top?by=n").body, parse_float=Decimal)["items"]
        assert [(item["key"], str(item["value"])) for item in found] == [
            ("b", "20000000000000000.06"), ("a", "20000000000000000.02"), ("c", "0.60"),
        ]  # fmt: skip


def test_sessions(tmp_path: Path) -> None:
    with world(tmp_path, view(store="session", value="int64")) as made:
        sessions = {("a", 1, 5): 3, ("a", 7, 9): 4, ("b", 2, 3): 9}
        made.put_all({
            key.encode() + struct.pack(">qq", end, start): struct.pack(">q", pages)
            for (key, start, end), pages in sessions.items()
        })  # fmt: skip
        assert made.ask("top").json["items"] == [{"key": "b", "value": 9}, {"key": "a", "value": 7}]
        assert made.ask("top?from=6").json["items"] == [{"key": "a", "value": 4}]


def test_too_large_keys_are_refused(words: World, monkeypatch: pytest.MonkeyPatch) -> None:
    words.put_all({window_key(f"{n}-{'x' * 100}", 1): struct.pack(">q", n) for n in range(60)})
    monkeypatch.setattr(tops, "MAX_RANKED_BYTES", 4000)
    assert words.code("top?limit=50", 400) == "too-many-entries"
    assert len(words.ask("top?limit=5").json["items"]) == 5


def test_refusals(tmp_path: Path, words: World) -> None:
    with world(tmp_path / "orders", ORDERS) as orders:
        for query in ("from=1", "to=1", "order_by=sum"):
            said = orders.ask(f"top?by=n&{query}")
            assert said.status == 400
            name = query.partition("=")[0]
            assert f"{name} is for windows and sessions: a key of orders has" in said.body.decode()
    assert "order_by=most: it is one of sum, min, max, avg, count, entries." in (
        words.ask("top?order_by=most").body.decode()
    )
    assert "The values of orders are int64: omit by." in words.ask("top?by=n").body.decode()


def test_windows_without_numbers_are_counted(windows: World, slices: None) -> None:
    put(windows, {("a", 1): "x", ("a", 2): None, ("b", 1): 1})
    said = windows.ask("top?order_by=entries")
    assert said.json["items"] == [{"key": "a", "value": 2}, {"key": "b", "value": 1}]
    assert "by is missing: a field with numbers" in windows.ask("top").body.decode()
