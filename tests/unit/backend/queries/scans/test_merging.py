"""Rows of several partitions become one row per key."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from backend.queries.scans.merging import distinct
from backend.wire.scan import Row
from model.records import decode_entry, entry_head, tombstone_entry

heads = st.builds(entry_head, st.integers(0, 1), st.integers(0, 1)) | st.builds(
    tombstone_entry, st.integers(0, 1), st.integers(0, 1)
)
rows = st.lists(
    st.tuples(st.just(b"k"), heads, st.sampled_from([b"1", b"2"])), min_size=1, max_size=3
)


def head_of(row: Row) -> bytes:
    return row[1]


@given(rows)
def test_the_newest_row_counts_in_any_order(rows: Sequence[Row]) -> None:
    chosen = {tuple(distinct(list(order), head_of)) for order in permutations(rows)}
    assert len(chosen) == 1
    [[newest]] = chosen
    age = decode_entry(newest[1])[:2]
    assert all(decode_entry(head)[:2] <= age for _, head, _ in rows)


def test_other_keys_stay_in_their_order() -> None:
    times = [(b"a", 1), (b"k", 1), (b"k", 2)]
    found = [(key, entry_head(time, 0), b"") for key, time in times]
    assert distinct(found, head_of) == [found[0], found[2]]
    assert distinct(found[::-1], head_of) == [found[2], found[0]]
