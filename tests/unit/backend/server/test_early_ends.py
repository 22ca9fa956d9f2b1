"""An error after the first byte of a streamed answer: the log says so in one line, and the client
sees that the answer is not complete."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.http import streams
from backend.http.asgi import Receive, Scope, Send
from backend.http.negotiation import NDJSON
from backend.http.routes import views
from backend.queries import changes
from backend.queries.change_backlog import BacklogBudget
from backend.queries.changes import Changes
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.problems import Unavailable
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import World, world
from tests.support.running_server import App, exchange, run, running_server

LINES = NDJSON.decode()


@pytest.fixture(autouse=True)
def fresh_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was logged in the last 30 s."""
    for module in (streams, changes):
        monkeypatch.setattr(module, "log", RateLimitedLog(logging.getLogger(module.__name__)))


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, ORDERS) as made:
        made.put_all({b"key-%03d" % n: b"1" for n in range(20)})
        yield made


def break_streams(
    monkeypatch: pytest.MonkeyPatch, error: Exception, sent: int = views._WRITE
) -> None:
    """Streams of the whole view fail after a line of `sent` bytes and more."""

    async def steps(*_: Any) -> AsyncGenerator[tuple[list[bytes], bool]]:
        yield [b'{"key":"a","value":1}' + b" " * sent], False
        raise error

    monkeypatch.setattr(views, "stream_page", steps)


def early_ends(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "ends early" in record.getMessage()]


def test_each_kind_of_error_has_a_line(
    orders: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: after a partition was lost, all errors of the view were hidden for 30 s."""
    errors = [
        Unavailable("owner-unreachable", "Partition 1 is lost."),
        Unavailable("owner-unreachable", "Partition 2 is lost."),
        RuntimeError("a bug"),
        ValueError("another bug"),
        ValueError("another bug"),
    ]
    for error in errors:
        break_streams(monkeypatch, error)
        answer = orders.ask("keys", accept=LINES)
        assert (answer.status, answer.complete) == (200, False)
    logged = early_ends(caplog)
    assert [record.exc_info is None for record in logged] == [True, False, False]
    lost, bug, another = [record.getMessage() for record in logged]
    assert "keys of orders" in lost
    assert "owner-unreachable: Partition 1 is lost." in lost
    assert "a bug" in bug
    assert "another bug" in another


@pytest.mark.parametrize(("sent", "status"), [(views._WRITE, b"200"), (1, b"500")])
def test_the_line_is_the_only_one(
    orders: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    sent: int,
    status: bytes,
) -> None:
    """Regression: the server logged for each client that the application is not correct. If nothing
    was written yet, the client gets 500."""
    break_streams(monkeypatch, Unavailable("owner-unreachable", "Partition 1 is lost."), sent)

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        await orders.routers["b1"](scope, receive, send)

    async def main() -> None:
        async with running_server(App(handler)) as (_, port):
            request = b"GET /views/orders/keys HTTP/1.1\r\nHost: h\r\nAccept: %b\r\n\r\n" % NDJSON
            for _ in range(3):
                response = await exchange(port, request)
                assert response.startswith(b"HTTP/1.1 %b " % status)
                assert not response.endswith(b"0\r\n\r\n"), "not an end of the body"

    run(main())
    assert len(early_ends(caplog)) == 1
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_changes_of_a_key_that_cannot_be_read(
    orders: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: the stream ended after its headers, and nothing said why."""
    reads = orders.instances["b1"].reads
    key = next(b"key-%03d" % n for n in range(20) if orders.partition(b"key-%03d" % n) % 2 == 0)

    def fail(*_: Any) -> Any:
        raise Unavailable("schema-unavailable", "Schema 7: the registry is away.")

    monkeypatch.setattr(type(reads.view.key_codec), "to_json", fail)

    async def events() -> list[bytes]:
        stream = Changes(reads, key, None, BacklogBudget())
        return [event async for event in stream.events()]

    assert asyncio.run(events()) == []
    [record] = [each for each in caplog.records if "changes" in each.getMessage()]
    assert "view orders" in record.getMessage()
    assert "schema-unavailable: Schema 7: the registry is away." in record.getMessage()
