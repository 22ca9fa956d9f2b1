"""The first of ranked entries, bounded in number and bytes, against a sorted list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.queries.whole_view import ranking
from backend.queries.whole_view import top as tops
from backend.queries.whole_view.ranking import Best, Ranked, Ranking
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import World, world

ranks = st.integers(-3, 3) | st.sampled_from([0.5, -0.0, float("inf"), 2**53, 2**53 + 1])
entries = st.dictionaries(
    st.binary(max_size=2), st.tuples(ranks, st.binary(max_size=12)), max_size=20
)


def ranked(found: dict[bytes, tuple[ranking.Number, bytes]]) -> list[Ranked]:
    return [(rank, key, entry) for key, (rank, entry) in found.items()]


def size(of: list[Ranked]) -> int:
    return sum(len(key) + len(entry) for _, key, entry in of)


@given(entries, st.integers(1, 8), st.integers(1, 30), st.integers(1, 60))
def test_whatever_comes_first(
    found: dict[bytes, tuple[ranking.Number, bytes]], limit: int, chunk: int, most: int
) -> None:
    """What is kept is the beginning of the whole ranking; all of it, unless it says `short`."""
    came, best = ranked(found), Best(limit, most)
    for start in range(0, len(came), chunk):
        best.add(came[start : start + chunk])
    whole = sorted(came)[:limit]
    assert best.entries == whole[: len(best.entries)]
    assert len(best.entries) == 1 or size(best.entries) <= most
    if size(whole) <= most:
        assert best.entries == whole
        assert not best.short
    elif len(best.entries) < len(whole):
        assert best.short
        assert best.entries


@given(st.lists(entries, max_size=4), st.integers(1, 8), st.integers(1, 60))
@example([{b"": (0, bytes(4)), b"\0": (1, b"")}, {b"": (0, b"")}], 2, 6)
def test_parts_that_were_cut(
    parts: list[dict[bytes, tuple[ranking.Number, bytes]]], limit: int, most: int
) -> None:
    """As an instance merges what others have ranked of their own partitions."""
    came: list[Ranked] = []
    merged = Best(limit, most)
    for number, part in enumerate(parts):
        theirs = [(rank, b"%d" % number + key, entry) for rank, key, entry in ranked(part)]
        came += theirs
        best = Best(limit, most)
        best.add(theirs)
        merged.add(best.entries + ([best.end] if best.end else []), best.end is None)
    whole = sorted(came)[:limit]
    assert merged.entries == whole[: len(merged.entries)]
    assert merged.short or merged.entries == whole
    if size(whole) <= most:
        assert merged.entries == whole
        assert not merged.short


@given(entries, st.integers(1, 5), st.integers(1, 5), st.integers(1, 60))
def test_what_does_not_matter_any_more(
    found: dict[bytes, tuple[ranking.Number, bytes]], limit: int, chunk: int, most: int
) -> None:
    """In the order of keys, entries that are not below `worst` may be left out."""
    in_order = sorted(ranked(found), key=lambda each: each[1])
    best, all_of_them = Best(limit, most), Best(limit, most)
    for start in range(0, len(in_order), chunk):
        some = in_order[start : start + chunk]
        all_of_them.add(some)
        worst = best.worst
        best.add([each for each in some if worst is None or each[0] < worst])
    assert best.entries == all_of_them.entries
    assert best.short == all_of_them.short


def test_what_is_no_number() -> None:
    values = [b"1", b"1.5", b"true", b"null", b'"Infinity"', b"[]", b"{}", b"18446744073709551615"]
    documents = [b'{"a":%b}' % value for value in values]
    expected = [1, 1.5, None, None, None, None, None, 2**64 - 1]
    assert Ranking(ORDERS, "a", descending=False).rank_values(documents) == expected
    items = [b'{"key":"k","value":%b}' % document for document in documents]
    negative = [None if rank is None else -rank for rank in expected]
    assert Ranking(ORDERS, "a", descending=True).rank_items(items) == negative


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """60 values of some 500 bytes, of which 4,000 bytes may be ranked."""
    monkeypatch.setattr(tops, "MAX_RANKED_BYTES", 4000)
    with world(tmp_path, ORDERS) as made:
        made.put_all({b"%03d" % n: b'{"n":%d,"x":"%b"}' % (n, b"x" * 500) for n in range(60)})
        yield made


@pytest.mark.parametrize("instance", ["b1", "b2"])
def test_values_that_are_too_large_are_told(large: World, instance: str) -> None:
    said = large.ask("top?by=n&limit=20", instance)
    assert (said.status, said.json["code"]) == (400, "too-many-entries")
    assert "limit=7" in said.json["detail"]
    for limit in (1, 7):
        top = large.ask(f"top?by=n&limit={limit}", instance).json["items"]
        assert [item["value"]["n"] for item in top] == list(range(59, 59 - limit, -1))


def test_large_values_that_are_not_among_the_first_do_not_matter(large: World) -> None:
    large.put_all({b"s%d" % n: b'{"n":%d}' % (100 + n) for n in range(30)})
    top = large.ask("top?by=n&limit=30").json["items"]
    assert [item["value"]["n"] for item in top] == list(range(129, 99, -1))
    assert large.code("top?by=n&limit=60", 400) == "too-many-entries"


def test_scans_are_counted(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made:
        made.put_all({b"%03d" % n: b'{"n":%d}' % n for n in range(60)})
        for target, kind in (
            ("keys", "page"), ("count", "count"), ("count?exact=true", "count"), ("top?by=n", "top")
        ):  # fmt: skip
            counts = [each.context.telemetry.scans["orders"] for each in made.instances.values()]
            looked_at = sum(sum(each.entries.values()) for each in counts)
            before = counts[0].requests[kind], counts[0].seconds[kind]
            made.ask(target)
            assert counts[0].requests[kind] == before[0] + 1
            assert counts[0].seconds[kind] > before[1]
            assert counts[1].requests[kind] == 0, "it was asked by another instance"
            assert sum(sum(each.entries.values()) for each in counts) - looked_at == 60
        made.ask("keys", accept="application/x-ndjson")
        assert made.instances["b1"].context.telemetry.scans["orders"].requests["stream"] == 1


def test_values_nested_as_deep_as_may_be() -> None:
    deep = b'{"a":2,"b":%b}' % (b"[" * 1023 + b"]" * 1023)
    documents = [b'{"a":1}', deep, b' {"a": 3}\n']
    assert Ranking(ORDERS, "a", descending=False).rank_values(documents) == [1, 2, 3]


@pytest.mark.parametrize(
    "key",
    [
        b'"k"', b'[",\\"value\\":[",{"a":1,"value":{"a":7}},"]"]', b'"\\\\"', b'",\\"value\\":1"',
        b"[" * 1024 + b"]" * 1024,
    ],
)  # fmt: skip
def test_items_nested_as_deep_as_may_be(key: bytes) -> None:
    """An item is one level deeper than its key and its value."""
    deep = b'{"a":2,"value":%b}' % (b"[" * 1023 + b"]" * 1023)
    items = [b'{"key":%b,"value":%b}' % (key, value) for value in (b'{"a":1}', deep)]
    assert Ranking(ORDERS, "a", descending=False).rank_items(items) == [1, 2]


def test_malformed_items() -> None:
    deep = b"[" * 1024 + b"]" * 1024
    for item in (b"{", b"[%b]" % deep, b'{"key":%b}' % deep):
        with pytest.raises(ValueError, match="an item has no value"):
            Ranking(ORDERS, "a", descending=False).rank_items([item])
    with pytest.raises(ValueError, match="depth limit"):
        Ranking(ORDERS, "a", descending=False).rank_items([b'{"key":1,"value":[%b]}' % deep])


@pytest.mark.parametrize("instance", ["b1", "b2"])
def test_a_value_nested_as_deep_as_may_be_is_ranked(tmp_path: Path, instance: str) -> None:
    with world(tmp_path, ORDERS) as made:
        value = b'{"n":9,"d":%b}' % (b"[" * 1023 + b"]" * 1023)
        made.put_all({b"%d" % n: b'{"n":%d}' % n for n in range(8)} | {b"deep": value})
        said = made.ask("top?by=n&limit=2", instance)
        assert said.status == 200, said.body
        assert said.body.startswith(b'{"items":[{"key":"deep","value":%b},{"key":"7",' % value)
