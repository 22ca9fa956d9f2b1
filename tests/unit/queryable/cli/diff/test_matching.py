"""Matching the rows of two sources, their differences, and sampling."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable import Entry, Session, View, Window
from queryable.cli.diff import matching
from queryable.cli.diff.comparison import Comparison
from queryable.cli.diff.matching import (
    DIFFERENT,
    Difference,
    Pair,
    TooFewMatches,
    difference,
    identity_of,
    match_rows,
)
from queryable.cli.diff.sampling import random_key

KEYS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=3),
    "bytes": st.binary(max_size=3),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "float64": st.floats(allow_nan=False),
    "json": st.recursive(st.integers() | st.text(max_size=2), st.lists, max_leaves=3),
}


def view(key: str, store: str = "key-value") -> View:
    return View.from_json(
        {"name": "v", "topic": "t", "key": key, "value": "json", "store": store,
         "partitioner": "murmur2", "partitions": 3}
    )  # fmt: skip


def in_order(of: View, rows: list[Any]) -> list[Any]:
    """The rows in the order of a deployment; for documents, in any consistent order."""
    codec = of.key.codec
    assert codec is not None
    return sorted(rows, key=lambda r: (codec.to_store(of.key.record_bytes(r.key) or b""), *r[1:-1]))


def expected(first: list[Any], second: list[Any]) -> dict[Any, Pair]:
    ones, others = ({identity_of(row): row for row in rows} for rows in (first, second))
    return {name: (ones.get(name), others.get(name)) for name in ones | others}


@given(st.data(), st.sampled_from(sorted(KEYS)))
def test_each_row_is_matched_once(data: st.DataObject, key: str) -> None:
    keys = data.draw(st.lists(KEYS[key], unique_by=lambda k: identity_of(Entry(k, 0)), max_size=30))
    of = view(key)
    entries = in_order(of, [Entry(k, n) for n, k in enumerate(keys)])
    first, second = (
        [row for row in entries if data.draw(st.booleans(), label="exists")] for _ in range(2)
    )
    pairs = list(match_rows(of, first, second))
    found = {identity_of(one or other): (one, other) for one, other in pairs}
    assert found == expected(first, second)
    assert len(pairs) == len(found)


@pytest.mark.parametrize("key", ["string", "json"])
def test_windows_and_sessions_of_a_key_are_matched_by_their_times(key: str) -> None:
    windows = [Window(k, s, s + 9, n, 0) for k in "ab" for s in (1, 2) for n in (0, 1)]
    sessions = [Session(k, s, e, 0) for k in "ab" for e in (5, 7) for s in (1, 2)]
    for rows in (windows, sessions):
        first, second = rows[:3] + rows[4:], rows[1:]
        pairs = list(match_rows(view(key), first, second))
        assert {identity_of(a or b): (a, b) for a, b in pairs} == expected(first, second)
        assert [a is None or b is None for a, b in pairs].count(True) == 2


def test_unmatched_rows_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "_MAX_UNMATCHED", 10)
    of = view("json")
    one = [Entry([n], 0) for n in range(50)]
    assert len(list(match_rows(of, one, []))) == 50
    assert len(list(match_rows(of, one[:5], one[:5] + one[9:12]))) == 8
    with pytest.raises(TooFewMatches):
        list(match_rows(of, one, [Entry({"n": n}, 0) for n in range(50)]))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (math.nan, math.nan, True),
        (b"\xff", b"\xff", True),
        (1, True, False),
        (1, 1.0, False),
        ([1], [1, 2], False),
        (None, 0, False),
    ],
)
def test_equal_values(one: Any, other: Any, is_same: bool) -> None:
    found = difference((Entry("a", one), Entry("a", other)))
    assert (found is None) == is_same


def test_rows_of_differences() -> None:
    only = difference((Entry("a", 1), None))
    assert only is not None
    assert only.as_row() == {"difference": "only-in-first", "key": "a", "first": 1}
    window = Window("a", 1, None, 0, None)
    other = difference((None, window))
    assert other is not None
    assert other.as_row() == {
        "difference": "only-in-second", "key": "a", "start": 1, "end": None, "sequence": 0,
        "second": None,
    }  # fmt: skip
    assert difference((None, None)) is None


class SettledSource:
    """A source whose rows have all become equal."""

    def read_again(self, rows: list[Any]) -> list[Any]:
        return [Entry(row.key, "settled") for row in rows]


def test_differences_that_disappear_on_rereading_are_not_counted() -> None:
    found = [Difference(DIFFERENT, Entry(n, 1), 1, 2) for n in range(5)]
    for again, differ in ((0, 5), (3, 2), (1000, 0)):
        sources: Any = (SettledSource(), SettledSource())
        comparison = Comparison(sources, max_kept=1)
        comparison._add(iter(found), again)
        assert comparison.total == comparison.counts[DIFFERENT] == differ
        assert comparison.kept == found[again : again + 1]


@given(st.data(), st.sampled_from(["string", "bytes", "int64", "float64"]), st.integers())
def test_random_keys_are_between_the_first_key_and_the_last(
    data: st.DataObject, key: str, seed: int
) -> None:
    known = sorted(data.draw(st.lists(KEYS[key], min_size=1, max_size=20)))
    key_ = random_key(known[0], known[-1], known, Random(seed))
    assert known[0] <= key_ <= known[-1]
    view(key).key.check(key_)


def test_random_keys_are_spread_like_the_known_keys() -> None:
    known = [f"order-{n:05}" for n in (*range(100), *range(99_900, 100_000))]
    random = Random(7)
    drawn = [random_key(known[0], known[-1], known, random) for _ in range(1000)]
    tenths = [sum(key_.startswith(f"order-{n}") for key_ in drawn) for n in range(10)]
    assert min(tenths) > 70
