"""When the job looks for moved keys."""

from __future__ import annotations

import time
from dataclasses import replace

from spark.moved_keys.dependence import Dependence
from spark.moved_keys.marks import Mark
from spark.moved_keys.watched import SearchReason, WatchedView
from spark.views import VIEWS

MARK = Mark("view", Dependence.WRITES, {"raw": 2})


def watched(mark: Mark | None, now: int = 2) -> WatchedView:
    return WatchedView(VIEWS["departures"], {"raw": now}, mark, grown_at=100.0)


def test_a_loaded_view_is_looked_at_when_it_has_caught_up() -> None:
    each = watched(None)
    assert each.is_unsure({})
    assert each.next_reason(None, 200.0) is None
    assert each.next_reason(150.0, 200.0) is SearchReason.LOADED
    assert not watched(None, 1).is_unsure({})


def test_after_an_addition_there_are_two_searches() -> None:
    assert watched(MARK, 3).grown({"raw": 3})
    each = watched(replace(MARK, growing={"raw": 3}, again_at=700.0), 3)
    assert each.is_unsure({})
    assert not each.is_settled
    assert not each.grown({"raw": 3})
    assert each.grown({"raw": 4})
    assert each.next_reason(99.0, 120.0) is None, "it has not read the new partitions"
    assert each.next_reason(101.0, 120.0) is SearchReason.GROWN
    each.has_searched = True
    assert each.next_reason(101.0, 120.0) is None
    assert each.next_reason(650.0, 710.0) is None, "producers may have written since"
    assert each.next_reason(701.0, 710.0) is SearchReason.AGAIN


def test_nothing_is_due_without_an_addition() -> None:
    each = watched(MARK)
    assert each.is_settled
    assert not each.is_unsure({})
    assert each.is_unsure({"raw": {0: 1, 1: 1, 2: 1}}), "read before it is noticed"
    assert not each.grown({"raw": 2})
    assert each.next_reason(time.time(), time.time()) is None


def test_views_in_any_order_need_no_look() -> None:
    assert not watched(replace(MARK, dependence=Dependence.NOTHING), 3).grown({"raw": 3})
