"""Sessions: reads include all records that were read or written before."""

from __future__ import annotations

import pytest

from queryable.client.protocol.calls import append, batch, point, time_ranges
from tests.support.clients.scripted_transport import (
    ORDERS,
    VALUE,
    Driver,
    ok,
    orders,
)


def test_session_sends_the_offsets_that_it_has_seen() -> None:
    driver = orders(ok({"partition": 5, "offset": 9}), VALUE, VALUE, VALUE, VALUE)
    with driver.context.session() as seen:
        driver.call(append.append, "orders", "a", {"n": 1})
        driver.call(point.get, "orders", "a")
        driver.call(point.get, "orders", "a")
        assert seen.snapshot() == {"orders": {5: 9, 2: 6}}
        assert [a.value for a in driver.call(batch.get_many, "orders", ["a"])] == [1]
    driver.call(point.get, "orders", "a")
    queries = [target.partition("?")[2] for target in driver.targets[1:]]
    assert queries == ["min_offset=5:9", "min_offset=2:6,5:9", "min_offset=2:6,5:9", ""]


def test_session_includes_queries_of_time_ranges() -> None:
    visits = {**ORDERS, "name": "visits", "topic": "visits", "store": "session"}
    page = ok({"key": "a", "items": [], "next": None}, partition="1", offset="4")
    driver = Driver(ok(visits), page, page)
    with driver.context.session():
        for _ in range(2):
            driver.run(driver.call(time_ranges.sessions, "visits", "a").next())
    assert "min_offset" not in driver.targets[1]
    assert "min_offset=1:3" in driver.targets[2]


def test_get_many_reads_keys_one_by_one_in_a_session() -> None:
    driver = orders(VALUE, VALUE)
    with driver.context.session() as seen:
        driver.call(batch.get_many, "orders", ["a", "b"])
        assert seen.snapshot() == {"orders": {2: 6}}
    assert [request.method for request in driver.requests] == ["GET", "GET"]


def test_reads_of_a_session_at_the_same_time_are_made_once() -> None:
    """While one waits for its answer, another one adds an offset that its request does not have."""
    page = ok({"key": "a", "items": [], "next": None}, partition="1", offset="4")
    later = ok({"key": "b", "value": 1}, partition="3", offset="7")
    driver = orders(VALUE, later)
    with driver.context.session():
        pager = driver.call(time_ranges.windows, "orders", "a")
        for waiting, answer in (
            (point.get(driver.context, "orders", "a"), VALUE),
            (pager.next(), page),
        ):
            next(waiting)
            driver.call(point.get, "orders", "b")
            with pytest.raises(StopIteration):
                waiting.send(answer)
