"""Session windows without Spark, for requests in any order and any number of batches."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spark.event_time.sessions import Session, merged, packed, removed, unpacked

GAP = 10
times = st.lists(st.integers(-200, 200), max_size=30)


def single(*times: int) -> list[Session]:
    return [Session(time, time, 1, 5) for time in times]


def test_the_gap_itself_does_not_end_a_session() -> None:
    assert merged(single(0, 10, 21), GAP) == [Session(0, 10, 2, 10), Session(21, 21, 1, 5)]


def test_a_late_request_removes_the_two_sessions_that_it_joins() -> None:
    before = merged(single(0, 20), GAP)
    after = merged([*before, *single(10)], GAP)
    assert after == [Session(0, 20, 3, 15)]
    assert list(removed(before, after)) == single(0, 20)


def test_a_request_within_a_session_replaces_it_under_its_own_key() -> None:
    before = merged(single(0, 4), GAP)
    after = merged([*before, *single(2)], GAP)
    assert after == [Session(0, 4, 3, 15)]
    assert list(removed(before, after)) == []


@given(times, times)
def test_any_parts_and_order_give_the_same_sessions(first: list[int], more: list[int]) -> None:
    at_once = merged(single(*first, *more), GAP)
    assert merged([*merged(single(*first), GAP), *single(*more)], GAP) == at_once
    assert merged([*merged(single(*more), GAP), *single(*first)], GAP) == at_once
    assert sum(each.requests for each in at_once) == len(first) + len(more)
    for one, next_ in pairwise(at_once):
        assert next_.start - one.end > GAP
    assert unpacked(packed(at_once)) == at_once
