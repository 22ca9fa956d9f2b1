"""Changes of a key, across streams that end."""

from __future__ import annotations

import json
from typing import Any

from queryable.client.protocol.calls import changes
from tests.queryable.client.protocol.scripted_transport import (
    ScriptedStream,
    orders,
    problem,
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
