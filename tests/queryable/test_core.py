"""Whom a client asks, how often, and what it makes of what it is told."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from queryable import (
    BadRequest,
    BadUse,
    NoAnswer,
    NotFound,
    OutsideHistory,
    ServerError,
    Unavailable,
    Unconfirmed,
)
from queryable.core import calls, histories
from queryable.core.core import MOST_ATTEMPTS
from queryable.core.effects import NoConnection, Response
from tests.queryable.scripted import (
    BASE,
    CUT,
    ORDERS,
    REFUSED,
    Driver,
    Said,
    ScriptedStream,
    ok,
    problem,
)

VALUE = ok({"key": "a", "value": 1}, partition="2", offset="7", lag="0", served_by="b1; active")


def orders(*said: Said, **options: Any) -> Driver:
    """A driver that has been told of the view."""
    driver = Driver(ok(ORDERS), *said, **options)
    driver.ask(calls.view, "orders")
    driver.asked.clear()
    return driver


def test_an_answer_knows_where_it_is_from() -> None:
    answer = orders(VALUE).ask(calls.get, "orders", "a")
    assert (answer.key, answer.value, answer.found) == ("a", 1, True)
    assert (answer.partition, answer.position, answer.lag) == (2, 7, 0)
    assert answer.staleness is None
    assert (answer.served_by, answer.instances, answer.is_standby) == ("b1", ("b1",), False)
    assert (answer.pipeline_lag, answer.pipeline_staleness, answer.pipeline_state) == (None,) * 3
    derived = ok({"key": "a", "value": 1}, pipeline_lag="4", pipeline_staleness="1500",
                 pipeline_state="stopped")  # fmt: skip
    answer = orders(derived).ask(calls.get, "orders", "a")
    assert (answer.pipeline_lag, answer.pipeline_state) == (4, "stopped")
    assert answer.pipeline_staleness == timedelta(seconds=1.5)


@pytest.mark.parametrize(
    ("header", "instances", "is_standby"),
    [
        ("b1; standby", ("b1",), True),
        ("b2; active, b1; standby, b1; active", ("b2", "b1"), True),
        ("b2; active, b1; active, +3", ("b2", "b1"), False),
        ("b2; active, older", ("b2", "older"), False),
    ],
)
def test_an_answer_knows_all_who_have_read(
    header: str, instances: tuple[str, ...], is_standby: bool
) -> None:
    said = ok({"key": "a", "value": 1}, lag="0", served_by=header)
    answer = orders(said).ask(calls.get, "orders", "a")
    assert (answer.served_by, answer.instances) == (instances[0], instances)
    assert answer.is_standby is is_standby


def test_an_answer_for_which_nobody_has_read_names_nobody() -> None:
    answer = orders(ok({"key": "a", "value": 1})).ask(calls.get, "orders", "a")
    assert (answer.served_by, answer.instances, answer.is_standby) == (None, (), False)


def test_a_key_that_is_not_there_is_no_error_and_a_view_is() -> None:
    driver = orders(problem(404, "key-not-found", partition="1", offset="3"))
    answer = driver.ask(calls.get, "orders", "a")
    assert not answer
    assert (answer.value, answer.position) == (None, 3)
    with pytest.raises(NotFound) as told:
        Driver(problem(404, "view-not-found")).ask(calls.get, "nothing", "a")
    assert told.value.code == "view-not-found"
    with pytest.raises(NotFound):
        orders(problem(404, "view-not-found")).ask(calls.get, "orders", "a")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(400, "bad-parameter"), BadRequest),
        (problem(406, "not-acceptable"), BadRequest),
        (problem(410, "outside-history"), OutsideHistory),
        (problem(500, "internal-error"), ServerError),
        (Response(500, {}, b"<html>"), ServerError),
        (problem(503, "repartitioned", retry_after="1", retry_elsewhere="no"), Unavailable),
    ],
)
def test_what_no_retry_helps_is_asked_once(answer: Response, kind: type[Exception]) -> None:
    driver = orders(answer)
    with pytest.raises(kind):
        driver.ask(calls.get, "orders", "a")
    assert len(driver.asked) == 1


def test_what_is_not_available_yet_is_asked_again_as_late_as_it_says() -> None:
    driver = orders(problem(503, "catching-up", retry_after="1"), VALUE)
    assert driver.ask(calls.get, "orders", "a").value == 1
    [pause] = driver.pauses
    assert 0.75 <= pause <= 1.25


def test_what_somebody_has_said_tells_more_than_that_time_ran_out() -> None:
    driver = orders(problem(503, "not-up-to-offset", retry_after="1"), *[CUT] * 9, timeout=1.6)
    with pytest.raises(Unavailable, match="not-up-to-offset"):
        driver.ask(calls.get, "orders", "a")
    assert len(driver.asked) > 1


def test_lost_connections_are_opened_again_sooner() -> None:
    driver = orders(CUT, REFUSED, VALUE)
    assert driver.ask(calls.get, "orders", "a").value == 1
    assert len(driver.pauses) == 2
    assert sum(driver.pauses) < 0.2


def test_the_time_of_a_call_is_for_all_of_its_tries() -> None:
    driver = orders(*[problem(503, "nobody", retry_after="1")] * 20, timeout=3.0)
    with pytest.raises(Unavailable) as told:
        driver.ask(calls.get, "orders", "a")
    assert told.value.code == "nobody"
    assert driver.now <= 103.0
    assert all(request.timeout <= 3.0 for request in driver.asked)
    assert driver.asked[-1].timeout <= 3.0 - sum(driver.pauses) + 1e-9


def test_a_call_ends_after_so_many_tries() -> None:
    driver = orders(*[REFUSED] * 20, timeout=1e6)
    with pytest.raises(NoAnswer):
        driver.ask(calls.get, "orders", "a")
    assert len(driver.asked) <= MOST_ATTEMPTS


def test_many_failing_calls_share_a_budget_of_retries() -> None:
    driver = orders(*[REFUSED] * 1000)
    for _ in range(100):
        with pytest.raises(NoAnswer):
            driver.ask(calls.get, "orders", "a")
    assert len(driver.asked) <= 100 + 11


def test_answers_earn_retries() -> None:
    driver = orders()
    while driver.core.budget.spend():
        pass
    driver.said = [VALUE] * 11
    for _ in range(11):
        driver.ask(calls.get, "orders", "a")
    driver.said = [REFUSED, VALUE]
    assert driver.ask(calls.get, "orders", "a").value == 1


def append(driver: Driver) -> Any:
    return driver.ask(calls.append, "orders", "a", {"n": 1})


def test_appends_are_sent_again_only_where_nothing_can_have_been_written() -> None:
    done = ok({"partition": 2, "offset": 9})
    for first in (REFUSED, problem(503, "overloaded", retry_after="1")):
        driver = orders(first, done)
        assert append(driver) == (2, 9)
        assert len(driver.asked) == 2
        assert driver.asked[1].body == b'{"key":"a","value":{"n":1}}'
    for first in (
        CUT,
        problem(503, "append-unconfirmed", retry_after="1"),
        problem(503, "no-backend", retry_after="1"),
        Response(504, {}, b"<html>"),
    ):
        driver = orders(first)
        with pytest.raises(Unconfirmed):
            append(driver)
        assert len(driver.asked) == 1
    # where nothing can have arrived, that is told
    with pytest.raises(NoAnswer):
        append(orders(*[REFUSED] * 20))


def test_a_session_has_seen_what_it_wrote_and_read() -> None:
    driver = orders(ok({"partition": 5, "offset": 9}), VALUE, VALUE, VALUE, VALUE)
    with driver.core.session() as seen:
        append(driver)
        driver.ask(calls.get, "orders", "a")
        driver.ask(calls.get, "orders", "a")
        assert seen.snapshot() == {"orders": {5: 9, 2: 6}}
        assert [a.value for a in driver.ask(calls.get_many, "orders", ["a"])] == [1]
    driver.ask(calls.get, "orders", "a")
    queries = [target.partition("?")[2] for target in driver.targets[1:]]
    assert queries == ["min_offset=5:9", "min_offset=2:6,5:9", "min_offset=2:6,5:9", ""]


def test_histories_belong_to_a_session_too() -> None:
    visits = {**ORDERS, "name": "visits", "topic": "visits", "store": "session"}
    page = ok({"key": "a", "items": [], "next": None}, partition="1", offset="4")
    driver = Driver(ok(visits), page, page)
    with driver.core.session():
        for _ in range(2):
            driver.run(driver.ask(histories.sessions, "visits", "a").next())
    assert "min_offset" not in driver.targets[1]
    assert "min_offset=1:3" in driver.targets[2]


PROCESSORS = {
    "epoch": "5-1",
    "views": {"orders": {"partitions": 6, "partitioner": "murmur2"}},
    "processors": [
        {"id": "b1", "host": "h1", "port": 1, "state": "running",
         "topicPartitions": {"orders": [0, 1, 2]}, "standbyPartitions": {"orders": [3, 4, 5]}},
        {"id": "b2", "host": "h2", "port": 2, "state": "running",
         "topicPartitions": {"orders": [3, 4, 5]}, "standbyPartitions": {"orders": [0, 1, 2]}},
    ],
}  # fmt: skip


def test_a_direct_client_asks_the_owner_then_a_standby_then_anybody() -> None:
    driver = orders(ok(PROCESSORS), REFUSED, CUT, VALUE, direct=True)
    assert driver.ask(calls.get, "orders", "a").value == 1
    bases = [request.base for request in driver.asked]
    assert bases[0] == BASE
    assert sorted(bases[1:3]) == ["http://h1:1", "http://h2:2"]
    assert bases[3] == BASE
    assert driver.pauses == []


def test_a_direct_client_follows_epochs() -> None:
    newer = {**PROCESSORS, "epoch": "6-1", "processors": PROCESSORS["processors"][1:]}  # type: ignore[index]
    told = ok({"key": "a", "value": 1}, topology_epoch="6-1")
    driver = orders(ok(PROCESSORS), told, ok(newer), VALUE, direct=True)
    driver.ask(calls.get, "orders", "a")
    driver.now += 1
    driver.ask(calls.get, "orders", "a")
    assert driver.targets[2] == "/processors"
    assert driver.asked[3].base == "http://h2:2"


def test_batches_are_cut_and_keys_that_are_not_available_asked_for_alone() -> None:
    def items(first: int, last: int) -> Response:
        return ok(
            {"items": [{"key": str(n), "status": 200, "value": n} for n in range(first, last)]}
        )

    driver = orders(items(0, 1000), items(1000, 1001))
    answers = driver.ask(calls.get_many, "orders", [str(n) for n in range(1001)])
    assert [answer.value for answer in answers] == list(range(1001))
    mixed = ok(
        {"items": [{"key": "x", "status": 404}, {"key": "a", "status": 503, "code": "nobody"}]}
    )
    driver = orders(mixed, VALUE)
    answers = driver.ask(calls.get_many, "orders", ["x", "a"])
    assert [(answer.found, answer.value) for answer in answers] == [(False, None), (True, 1)]


def rows(driver: Driver, of: Any, *args: Any, **kwargs: Any) -> list[Any]:
    pager = driver.ask(of, *args, **kwargs)
    found: list[Any] = []
    while (page := driver.run(pager.next())) is not None:
        found += page
    driver.run(pager.close())
    return found


def page(*keys: str, next_: str | None = None) -> Response:
    return ok({"items": [{"key": key, "value": 0} for key in keys], "next": next_})


def test_pages_follow_their_cursors() -> None:
    driver = orders(page("a", "b", next_="c1"), page(next_="c2"), page("c"))
    found = rows(driver, calls.scan, "orders", from_="a", prefix="", limit=5, page=2)
    assert [row.key for row in found] == ["a", "b", "c"]
    assert [target.rpartition("order=asc&")[2] for target in driver.targets] == [
        "limit=2", "limit=2&cursor=c1", "limit=2&cursor=c2",
    ]  # fmt: skip


def test_a_ranking_knows_where_it_is_from() -> None:
    said = ok({"items": [{"key": "a", "value": 2}]}, lag="3", served_by="b1; active")
    ranking = orders(said).ask(calls.top, "orders", "n")
    assert ranking == [("a", 2)]
    assert (ranking.source.lag, ranking.source.served_by) == (3, "b1")


def test_limits_are_of_all_pages_together() -> None:
    driver = orders(page("a", "b", next_="c1"), page("c", next_="c2"))
    assert len(rows(driver, calls.scan, "orders", limit=3, page=2)) == 3
    assert driver.targets[1].endswith("limit=1&cursor=c1")
    assert rows(orders(), calls.scan, "orders", limit=0) == []


def lines(*keys: str) -> bytes:
    return b"".join(json.dumps({"key": key, "value": 0}).encode() + b"\n" for key in keys)


def test_a_stream_that_breaks_goes_on_at_the_last_key() -> None:
    cut = NoConnection("cut", may_have_arrived=True)
    whole = lines("a", "b")
    first = ScriptedStream([whole[:7], whole[7:], lines("c")[:5], cut])
    second = ScriptedStream([lines("b", "c"), lines("d"), b""])
    driver = orders(first, second)
    found = rows(driver, calls.scan, "orders", from_="a", stream=True)
    assert [row.key for row in found] == ["a", "b", "c", "d"]
    assert first.is_closed
    assert second.is_closed
    assert ["from=a" in driver.targets[0], "from=b" in driver.targets[1]] == [True, True]
    driver = orders(ScriptedStream([lines("b", "a"), cut]), ScriptedStream([lines("a", "0"), b""]))
    found = rows(driver, calls.scan, "orders", order="desc", stream=True)
    assert [row.key for row in found] == ["b", "a", "0"]
    assert "to=a" in driver.targets[1]


def test_a_stream_of_windows_goes_on_after_the_last_window_of_its_key() -> None:
    view = {**ORDERS, "name": "w", "store": "window"}

    def windows(*of: tuple[str, int, int]) -> bytes:
        items = [{"key": k, "start": s, "end": s + 9, "sequence": n, "value": 0} for k, s, n in of]
        return b"".join(json.dumps(item).encode() + b"\n" for item in items)

    every = [("a", 1, 0), ("a", 1, 1), ("a", 2, 0), ("b", 1, 0)]
    cut = NoConnection("cut", may_have_arrived=True)
    driver = Driver(
        ok(view),
        ScriptedStream([windows(*every[:2]), cut]),
        ScriptedStream([windows(*every[:1]), windows(*every[1:]), b""]),
    )
    found = rows(driver, histories.windows, "w", stream=True)
    assert [(row.key, row.start, row.sequence) for row in found] == every
    assert "key_from=a" in driver.targets[2]


def test_streams_that_always_break_end() -> None:
    cut = NoConnection("cut", may_have_arrived=True)
    driver = orders(*[ScriptedStream([cut]) for _ in range(50)])
    with pytest.raises(NoAnswer):
        rows(driver, calls.scan, "orders", stream=True)


def test_a_stream_that_is_refused_is_an_error() -> None:
    refused = ScriptedStream([problem(400, "bad-parameter").body, b""], status=400)
    with pytest.raises(BadRequest):
        rows(orders(refused), calls.scan, "orders", stream=True)
    assert refused.is_closed


def event(key: str, value: Any, id_: str) -> bytes:
    data = json.dumps({"key": key, "value": value})
    return f"id: {id_}\nevent: value\ndata: {data}\n\n".encode()


def test_changes_go_on_where_a_stream_ended() -> None:
    driver = orders(
        ScriptedStream(
            [b": still there\n\n", event("a", 1, "2:5")[:9], event("a", 1, "2:5")[9:], b""]
        ),
        ScriptedStream([problem(503, "catching-up").body, b""], status=503),
        ScriptedStream([event("a", 2, "2:8") + b'id: 2:9\nevent: deleted\ndata: {"key":"a"}\n\n']),
    )
    pager = driver.ask(calls.changes, "orders", "a")
    [first] = driver.run(pager.next())
    assert (first.value, first.partition, first.offset) == (1, 2, 5)
    second, third = driver.run(pager.next())
    assert (second.value, second.offset) == (2, 8)
    assert third.is_deleted
    assert [(request.headers or {}).get("last-event-id") for request in driver.asked] == [
        None, "2:5", "2:5",
    ]  # fmt: skip


def test_that_a_key_is_not_there_is_told_once() -> None:
    absent = [b'id: 2:%d\nevent: deleted\ndata: {"key":"a"}\n\n' % n for n in (4, 6, 9)]
    driver = orders(
        ScriptedStream([absent[0], b""]),
        ScriptedStream([absent[1], b""]),
        ScriptedStream([event("a", 1, "2:8") + absent[2]]),
    )
    pager = driver.ask(calls.changes, "orders", "a")
    assert [change.offset for change in driver.run(pager.next())] == [4]
    # the second one tells nothing new, and the third goes on from where it was
    assert [change.offset for change in driver.run(pager.next())] == [8, 9]
    assert (driver.asked[-1].headers or {})["last-event-id"] == "2:6"


@pytest.mark.parametrize(
    ("of", "arguments", "options"),
    [
        (calls.get, ("orders", 7), {}),
        (calls.get, ("orders", "a"), {"max_staleness": "soon"}),
        (calls.scan, ("orders",), {"page": 0}),
        (calls.scan, ("orders",), {"limit": -1}),
        (calls.append, ("orders", "a", float("nan")), {}),
        (histories.windows, ("orders", "a"), {"key_from": "a"}),
    ],
)
def test_what_cannot_be_asked_is_not_sent(
    of: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    driver = orders()
    with pytest.raises(BadUse):
        driver.ask(of, *arguments, **options)
    assert driver.asked == []
