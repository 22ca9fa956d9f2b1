"""Changes of a key, across streams that end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from queryable.client.protocol.answers import Change
from queryable.client.protocol.calls import changes
from queryable.client.protocol.errors import NoAnswer
from queryable.client.protocol.transport import Response
from queryable.client.typed_views import TypedView
from tests.support.clients.scripted_transport import (
    ORDERS,
    Driver,
    ScriptedStream,
    ok,
    orders,
    problem,
    stream_of,
)


def event(key: str, value: Any, id_: str) -> bytes:
    data = json.dumps({"key": key, "value": value})
    return f"id: {id_}\nevent: value\ndata: {data}\n\n".encode()


def test_changes_resume_where_a_stream_ended() -> None:
    driver = orders(
        ScriptedStream(
            [b": still there\n\n", event("a", 1, "2:5")[:9], event("a", 1, "2:5")[9:], b""]
        ),
        ScriptedStream([problem(503, "catching-up").body, b""], status=503),
        ScriptedStream([event("a", 2, "2:8") + b'id: 2:9\nevent: deleted\ndata: {"key":"a"}\n\n']),
    )
    pager = driver.call(changes.changes, "orders", "a")
    [first] = driver.run(pager.next())
    assert (first.value, first.partition, first.offset) == (1, 2, 5)
    second, third = driver.run(pager.next())
    assert (second.value, second.offset) == (2, 8)
    assert third.is_deleted
    assert [(request.headers or {}).get("last-event-id") for request in driver.requests] == [
        None, "2:5", "2:5",
    ]  # fmt: skip


def test_deletion_is_not_repeated_after_a_resume() -> None:
    absent = [b'id: 2:%d\nevent: deleted\ndata: {"key":"a"}\n\n' % n for n in (4, 6, 9)]
    driver = orders(
        ScriptedStream([absent[0], b""]),
        ScriptedStream([absent[1], b""]),
        ScriptedStream([event("a", 1, "2:8") + absent[2]]),
    )
    pager = driver.call(changes.changes, "orders", "a")
    assert [change.offset for change in driver.run(pager.next())] == [4]
    # the second stream has nothing new; the third resumes at its position
    assert [change.offset for change in driver.run(pager.next())] == [8, 9]
    assert (driver.requests[-1].headers or {})["last-event-id"] == "2:6"


def event_of(change: str) -> bytes:
    kind = "deleted" if change.endswith("-") else "value"
    data = '{"key":"a"}' if kind == "deleted" else '{"key":"a","value":1}'
    return f"id: {change.rstrip('-')}\nevent: {kind}\ndata: {data}\n\n".encode()


def described(version: int) -> Response:
    return ok({**ORDERS, "version": version})


def sent_ids(driver: Driver) -> list[str | None]:
    return [(each.headers or {}).get("last-event-id") for each in driver.requests]


def first_change(driver: Driver, *args: Any, **kwargs: Any) -> Change:
    return driver.run(driver.call(changes.changes, *args, **kwargs).next())[0]


def test_changes_continue_after_a_change_of_the_same_version() -> None:
    """Offsets of one version mean nothing in another, so ids name the later versions."""
    driver = Driver(described(2), stream_of(2, event_of("2/3:7")))
    seen = first_change(driver, "orders", "a")
    assert seen.version == 2
    driver.replies += [stream_of(2, event_of("2/3:8"))]
    assert first_change(driver, "orders", "a", after=seen).offset == 8
    assert sent_ids(driver)[-1] == "2/3:7"
    # a partition and an offset are those of the version that the name means
    for name, version, expected in (("orders@2", 2, "2/3:7"), ("orders@1", 1, "3:7")):
        driver = Driver(
            ok({**ORDERS, "name": name, "version": version}), stream_of(version, event_of("3:8"))
        )
        first_change(driver, name, "a", after=(3, 7))
        assert sent_ids(driver)[-1] == expected


def test_a_deletion_that_was_seen_is_not_repeated() -> None:
    driver = orders(ScriptedStream([event_of("2:4-")]))
    seen = first_change(driver, "orders", "a")
    assert (seen.is_deleted, seen.version) == (True, None)
    # the offset of the partition's last record, which is of another key
    driver.replies = [ScriptedStream([event_of("2:9-") + event_of("2:10")])]
    assert first_change(driver, "orders", "a", after=seen).offset == 10


def test_the_same_event_is_not_returned_again() -> None:
    """In a view with a push, a stream always begins with the value, also if it was seen."""
    once = ScriptedStream([event_of("2:4"), b""])
    driver = orders(once, ScriptedStream([event_of("2:4"), event_of("2:5")]))
    pager = driver.call(changes.changes, "orders", "a")
    assert [driver.run(pager.next())[0].offset for _ in range(2)] == [4, 5]


def test_a_stream_resumes_in_the_push_of_the_last_change() -> None:
    """A pushed value has no record: each stream gives it another id."""

    def pushed(push: str, *chunks: bytes) -> ScriptedStream:
        stream = ScriptedStream([*chunks, b""])
        stream.headers = {"view-push": push}
        return stream

    driver = orders(
        pushed("one", event_of("2:4")),
        pushed("one", b": nothing new\n\n"),
        pushed("two"),  # it ends before its first event
        pushed("two", event_of("2:4")),
    )
    pager = driver.call(changes.changes, "orders", "a")
    [first], [second] = (driver.run(pager.next()) for _ in range(2))
    assert (first.push, second.push) == ("one", "two"), "another push, at the same position"

    def sent_pushes() -> list[str | None]:
        return [(each.headers or {}).get("view-push") for each in driver.requests]

    assert sent_pushes() == [None, "one", "one", "one"]
    driver.replies = [pushed("two", event_of("2:9"))]
    assert first_change(driver, "orders", "a", after=second).offset == 9
    assert (sent_ids(driver)[-1], sent_pushes()[-1]) == ("2:4", "two")
    # a partition and an offset do not say which push it was
    driver.replies = [pushed("two", event_of("2:9"))]
    first_change(driver, "orders", "a", after=(2, 4))
    assert sent_pushes()[-1] is None


@dataclass
class Order:
    item: str
    id: UUID | None = None


def test_a_typed_change_that_was_seen_is_not_returned_again() -> None:
    """Its value is compared with a document."""
    document = {"item": "tea", "id": str(UUID(int=7))}
    driver = orders(ScriptedStream([event("a", document, "2:4")]))
    typed = TypedView(driver, "orders", str, Order)
    seen = next(iter(typed.changes("a")))
    assert seen.value == Order("tea", UUID(int=7))
    again = event("a", document, "2:4") + event("a", document, "2:5")
    driver.replies = [ScriptedStream([again])]
    assert next(iter(typed.changes("a", after=seen))).offset == 5


def test_a_typed_change_that_was_seen_may_have_lost_fields() -> None:
    """The view has a push, so each stream begins with the value."""
    document = {"item": "tea", "price": 3}
    first = event("a", document, "2:4")
    driver = orders(ScriptedStream([first]))
    typed = TypedView(driver, "orders", str, Order)

    def after_the_seen(*chunks: bytes) -> Change[str, Order | None]:
        driver.replies = [ScriptedStream([*chunks])]
        return next(iter(typed.changes("a", after=seen)))

    seen = next(iter(typed.changes("a")))
    assert seen.value == Order("tea")
    later = event("a", document, "2:5")
    for chunks in ([first + later], [first, later], [later]):
        assert after_the_seen(*chunks).offset == 5
    # of another push, at the same position
    assert after_the_seen(event("a", {"item": "coffee"}, "2:4")).value == Order("coffee")


def test_streams_that_end_at_once_are_given_up() -> None:
    ended = [ScriptedStream([b": nothing new\n\n", b""]) for _ in range(1000)]
    driver = orders(ScriptedStream([event_of("2:4"), b""]), *ended)
    pager = driver.call(changes.changes, "orders", "a", patience=60.0)
    driver.run(pager.next())
    began = driver.now
    with pytest.raises(NoAnswer, match="end immediately"):
        driver.run(pager.next())
    assert 60 <= driver.now - began < 63
    assert len(driver.requests) < 50


def test_streams_that_stay_open_or_have_changes_are_not_given_up() -> None:
    driver = orders(*[ScriptedStream([event_of(f"2:{n}"), b""]) for n in range(1000)])
    pager = driver.call(changes.changes, "orders", "a", patience=1.0)
    for n in range(1000):
        assert driver.run(pager.next())[0].offset == n
    lasting = [ScriptedStream([b": still there\n\n", b""]) for _ in range(100)]
    driver = orders(*lasting, ScriptedStream([event_of("2:4")]), seconds_per_read=5.0)
    assert first_change(driver, "orders", "a", patience=1.0).offset == 4
