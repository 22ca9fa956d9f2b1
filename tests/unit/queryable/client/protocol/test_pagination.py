"""Pages and streams: cursors, limits, and streams that break."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queryable import (
    BadRequest,
    NoAnswer,
    ServerError,
)
from queryable.client.protocol.calls import scan, time_ranges
from queryable.client.protocol.transport import Response, TransportError
from tests.support.clients.scripted_transport import (
    ORDERS,
    Driver,
    ScriptedStream,
    ok,
    orders,
    problem,
    rows,
)


def page(*keys: str, next_: str | None = None) -> Response:
    return ok({"items": [{"key": key, "value": 0} for key in keys], "next": next_})


def test_pages_follow_their_cursors() -> None:
    driver = orders(page("a", "b", next_="c1"), page(next_="c2"), page("c"))
    found = rows(driver, scan.scan, "orders", from_="a", prefix="", limit=5, page=2)
    assert [row.key for row in found] == ["a", "b", "c"]
    assert [target.rpartition("order=asc&")[2] for target in driver.targets] == [
        "limit=2", "limit=2&cursor=c1", "limit=2&cursor=c2",
    ]  # fmt: skip


def test_limit_is_for_all_pages_together() -> None:
    driver = orders(page("a", "b", next_="c1"), page("c", next_="c2"))
    assert len(rows(driver, scan.scan, "orders", limit=3, page=2)) == 3
    assert driver.targets[1].endswith("limit=1&cursor=c1")
    assert rows(orders(), scan.scan, "orders", limit=0) == []


def lines(*keys: str) -> bytes:
    return b"".join(json.dumps({"key": key, "value": 0}).encode() + b"\n" for key in keys)


def test_broken_stream_resumes_at_its_last_key() -> None:
    cut = TransportError("cut", may_have_arrived=True)
    whole = lines("a", "b")
    first = ScriptedStream([whole[:7], whole[7:], lines("c")[:5], cut])
    second = ScriptedStream([lines("b", "c"), lines("d"), b""])
    driver = orders(first, second)
    found = rows(driver, scan.scan, "orders", from_="a", stream=True)
    assert [row.key for row in found] == ["a", "b", "c", "d"]
    assert first.is_closed
    assert second.is_closed
    assert ["from=a" in driver.targets[0], "from=b" in driver.targets[1]] == [True, True]
    driver = orders(ScriptedStream([lines("b", "a"), cut]), ScriptedStream([lines("a", "0"), b""]))
    found = rows(driver, scan.scan, "orders", order="desc", stream=True)
    assert [row.key for row in found] == ["b", "a", "0"]
    assert "to=a" in driver.targets[1]


def test_broken_stream_of_windows_resumes_after_its_last_window() -> None:
    view = {**ORDERS, "name": "w", "store": "window"}

    def windows(*of: tuple[str, int, int]) -> bytes:
        items = [{"key": k, "start": s, "end": s + 9, "sequence": n, "value": 0} for k, s, n in of]
        return b"".join(json.dumps(item).encode() + b"\n" for item in items)

    every = [("a", 1, 0), ("a", 1, 1), ("a", 2, 0), ("b", 1, 0)]
    cut = TransportError("cut", may_have_arrived=True)
    driver = Driver(
        ok(view),
        ScriptedStream([windows(*every[:2]), cut]),
        ScriptedStream([windows(*every[:1]), windows(*every[1:]), b""]),
    )
    found = rows(driver, time_ranges.windows, "w", stream=True)
    assert [(row.key, row.start, row.sequence) for row in found] == every
    assert "key_from=a" in driver.targets[2]


@pytest.mark.parametrize("of", [time_ranges.windows, time_ranges.sessions])
@pytest.mark.parametrize("stream", [False, True])
def test_rows_with_times_in_the_order_of_a_field(of: Any, stream: bool) -> None:
    """In pages: a stream could not be resumed after its last key."""
    items = [{"key": k, "start": 1, "end": 9, "sequence": 0, "value": 0} for k in "ba"]
    page = ok({"items": items, "next": None})
    driver = Driver(ok({**ORDERS, "name": "w", "store": "window"}), page)
    found = rows(driver, of, "w", order_by="delay", order="desc", stream=stream)
    assert [row.key for row in found] == ["b", "a"]
    resource, _, query = driver.targets[-1].partition("?")
    assert resource == f"/views/w/{of.__name__}"
    assert {"order_by=delay", "order=desc", "limit=1000"} <= {*query.split("&")}


def test_stream_that_always_breaks_fails() -> None:
    cut = TransportError("cut", may_have_arrived=True)
    driver = orders(*[ScriptedStream([cut]) for _ in range(50)])
    with pytest.raises(NoAnswer):
        rows(driver, scan.scan, "orders", stream=True)


def test_stream_with_new_rows_before_each_break_is_read_to_its_end() -> None:
    cut = TransportError("cut", may_have_arrived=True)
    keys = [f"{n:03}" for n in range(50)]
    # each begins with the last row that was received
    streams = [ScriptedStream([lines(*keys[max(n - 1, 0) : n + 1]), cut]) for n in range(50)]
    driver = orders(*streams, ScriptedStream([lines(keys[-1]), b""]))
    assert [row.key for row in rows(driver, scan.scan, "orders", stream=True)] == keys
    assert len(driver.sleeps) == 50
    assert all(0.07 < seconds < 0.13 for seconds in driver.sleeps)
    # without new rows, it fails
    again = [ScriptedStream([lines("a"), cut]) for _ in range(50)]
    driver = orders(*again)
    with pytest.raises(NoAnswer):
        rows(driver, scan.scan, "orders", stream=True)
    assert len(driver.requests) < 15


def test_rejected_stream_is_an_error() -> None:
    refused = ScriptedStream([problem(400, "bad-parameter").body, b""], status=400)
    with pytest.raises(BadRequest):
        rows(orders(refused), scan.scan, "orders", stream=True)
    assert refused.is_closed


@pytest.mark.parametrize("form", ["float64", "uuid", "json", "avro"])
def test_stream_falls_back_to_pages_for_keys_it_cannot_resume_at(form: str) -> None:
    driver = Driver(ok({**ORDERS, "key": form}), ok({"items": [], "next": None}))
    assert rows(driver, scan.scan, "orders", stream=True) == []
    assert "limit=1000" in driver.targets[1]


def test_truncated_row_is_an_error() -> None:
    line = json.dumps({"key": "a", "value": 1}).encode()
    with pytest.raises(ServerError):
        rows(orders(ScriptedStream([line, b""])), scan.scan, "orders", stream=True)


def test_a_cursor_that_does_not_fit_into_a_url_is_sent_in_a_body() -> None:
    cursor = "x" * 32_000
    driver = orders(page("a", next_=cursor), page("b"))
    assert [row.key for row in rows(driver, scan.scan, "orders", order="desc")] == ["a", "b"]
    first, second = driver.requests[-2:]
    assert (first.method, second.method) == ("GET", "POST")
    assert second.target == "/views/orders/keys"
    assert json.loads(second.body) == {"order": "desc", "limit": "1000", "cursor": cursor}


def test_a_stream_resumes_at_a_key_that_does_not_fit_into_a_url() -> None:
    long = "é" * 20_000
    cut = TransportError("cut", may_have_arrived=True)
    driver = orders(
        ScriptedStream([lines("a", long), cut]), ScriptedStream([lines(long, "ü"), b""])
    )
    found = rows(driver, scan.scan, "orders", stream=True)
    assert [row.key for row in found] == ["a", long, "ü"]
