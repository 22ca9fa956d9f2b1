"""Servers that hang, disconnect or are not this API; readers that stop; concurrent calls."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from local.ports import free_ports
from local.waiting import wait_until
from model.http.timed_connections import LimitedReader
from queryable import AsyncClient, Client, NoAnswer, ServerError, Unavailable, Unconfirmed
from tests.support.clients.both_clients import AnyClient
from tests.unit.model.http.servers import HEADS, dripping
from tests.unit.queryable.client.fake_server import RequestHandler, serving

KINDS = ["threads", "asyncio"]
LONG = 10.0


def make_client(kind: str, url: str, runner: asyncio.Runner, **options: Any) -> AnyClient:
    client_class = Client if kind == "threads" else AsyncClient
    return AnyClient(client_class(url, **options), runner, kind)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        yield running


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


CALLS = [
    ("get", ("orders", "a")),
    ("get_many", ("orders", ["a"])),
    ("scan", ("orders",)),
    ("top", ("orders", "n")),
    ("aggregate", ("orders", "n")),
    ("count", ("orders",)),
    ("append", ("orders", "a", 1)),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
def test_timeout(silent: str, runner: asyncio.Runner, kind: str, name: str, arguments: Any) -> None:
    client = make_client(kind, silent, runner)
    started = time.monotonic()
    with pytest.raises(NoAnswer):
        getattr(client, name)(*arguments, timeout=0.2)
    assert 0.19 < time.monotonic() - started < 3
    client.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_timeout_when_the_view_is_known(runner: asyncio.Runner, kind: str) -> None:
    finished = threading.Event()
    with serving(lambda _: finished.wait(LONG) and None) as server:
        client = make_client(kind, server.url, runner, timeout=LONG)
        client.view("orders")
        for ask in (
            lambda: client.get("orders", "a", timeout=0.2),
            lambda: client.scan("orders", timeout=0.2),
            lambda: client.scan("orders", timeout=0.2, stream=True),
        ):
            started = time.monotonic()
            with pytest.raises(NoAnswer):
                ask()
            assert 0.19 < time.monotonic() - started < 3
        with pytest.raises(Unconfirmed):
            client.append("orders", "a", 1, timeout=0.2)
        finished.set()
        client.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_server_that_drips_is_not_waited_for(
    runner: asyncio.Runner, kind: str, head: bytes
) -> None:
    """The time-out is for the whole answer."""
    with dripping(head) as url:
        client = make_client(kind, url, runner)
        started = time.monotonic()
        with pytest.raises(NoAnswer, match="no answer in time"):
            client.get("orders", "a", timeout=0.4)
        assert 0.39 < time.monotonic() - started < 3
        client.close()


def drip_head(request: RequestHandler) -> None:
    with suppress(OSError):
        request.wfile.write(HEADS["head"])
        while True:
            time.sleep(0.05)
            request.wfile.write(b"x")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["is silent", "drips"])
@pytest.mark.slow
def test_a_stream_of_a_server_that_hangs_is_opened_elsewhere(
    runner: asyncio.Runner, kind: str, how: str
) -> None:
    """Opening it has a share of the time. Then each read has the time of a read."""
    finished = threading.Event()

    def hang(request: RequestHandler) -> None:
        drip_head(request) if how == "drips" else finished.wait(LONG)

    def answer(request: RequestHandler) -> None:
        request.begin_chunked()
        request.chunk(b'{"key":"a","value":1}\n')
        time.sleep(0.5)  # longer than the share
        request.chunk(b'{"key":"b","value":1}\n')
        request.chunk(b"")

    with serving(hang) as first, serving(answer) as second:
        client = make_client(kind, f"{first.url},{second.url}", runner, timeout=0.8)
        client.view("orders")
        started = time.monotonic()
        assert [row.key for row in client.scan("orders", stream=True)] == ["a", "b"]
        assert 0.89 < time.monotonic() - started < 4
        assert (len(first.paths), len(second.paths)) == (1, 1)
        client.close()
        finished.set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_changes_of_a_server_that_hangs_end_after_the_patience(
    runner: asyncio.Runner, kind: str
) -> None:
    finished = threading.Event()
    with serving(lambda _: finished.wait(LONG) and None) as server:
        client = make_client(kind, server.url, runner)
        client.view("orders")
        started = time.monotonic()
        with pytest.raises(NoAnswer, match="in time"):
            client.first(client.client.changes("orders", "a", patience=0.4), 1)
        assert 0.39 < time.monotonic() - started < 3
        client.close()
        finished.set()


def test_the_time_that_was_left_is_no_limit_for_the_next_request_of_the_connection() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(5.0)
        theirs.sendall(b"ab")
        for _ in range(2):
            reader = LimitedReader(ours)
            assert reader.read(1)
            assert (ours.gettimeout() or 5.0) < 5.0
            reader.close()
            assert ours.gettimeout() == 5.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_append_is_unconfirmed_and_not_repeated(
    runner: asyncio.Runner, kind: str
) -> None:
    with serving(RequestHandler.hang_up) as server:
        client = make_client(kind, server.url, runner)
        with pytest.raises(Unconfirmed):
            client.append("orders", "a", 1)
        assert len(server.paths) == 1
        client.close()
    client = make_client(kind, f"http://127.0.0.1:{free_ports(1)[0]}", runner, timeout=0.5)
    with pytest.raises(NoAnswer) as raised:
        client.get("orders", "a")
    assert not raised.value.may_have_arrived
    client.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items": 1}', b'{"value"'])
def test_responses_of_another_server(runner: asyncio.Runner, kind: str, body: bytes) -> None:
    with serving(lambda request: request.respond(200, body)) as server:
        client = make_client(kind, server.url, runner)
        for name, arguments in CALLS:
            with pytest.raises(ServerError) as raised:
                getattr(client, name)(*arguments)
            assert raised.value.code == "not-understood"
        with pytest.raises(ServerError):
            client.scan("orders", stream=True)
        client.close()
    with serving(lambda request: request.respond(502, b"<html>", Retry_After="0")) as server:
        client = make_client(kind, server.url, runner, timeout=0.3)
        with pytest.raises(Unavailable):
            client.get("orders", "a")
        client.close()


def send_rows(request: RequestHandler, disconnected: threading.Event) -> None:
    """Sends NDJSON or events forever; sets `disconnected` when the client disconnects."""
    is_changes = request.path.endswith("/changes")
    request.begin_chunked()
    number = 0
    try:
        while not disconnected.is_set():
            row = json.dumps({"key": f"{number:09}", "value": 0}).encode()
            event = b"id: 0:%d\nevent: value\ndata: %b\n\n" % (number, row)
            request.chunk(event if is_changes else row + b"\n")
            number += 1
    except OSError:
        disconnected.set()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["scan", "changes"])
def test_dropped_iterator_closes_its_connection(
    runner: asyncio.Runner, kind: str, name: str
) -> None:
    disconnected = threading.Event()
    with serving(lambda request: send_rows(request, disconnected)) as server:
        client = make_client(kind, server.url, runner)
        rows = (
            client.client.scan("orders", stream=True)
            if name == "scan"
            else client.client.changes("orders", "a")
        )
        assert len(client.first(rows, 3)) == 3
        wait_until(
            lambda: client.run_pending() or disconnected.is_set(),
            LONG,
            "the connection to be closed",
        )
        client.close()
    assert len(server.paths) == 1


def test_client_stays_usable_after_cancelled_tasks() -> None:
    finished = threading.Event()

    def handle(request: RequestHandler) -> None:
        if "slow" in request.path:
            finished.wait(LONG)
        request.respond(200, {"key": "a", "value": 1})

    async def ask(url: str) -> None:
        async with AsyncClient(url, connections=2) as client:
            for _ in range(10):
                tasks = [asyncio.create_task(client.get("orders", "slow")) for _ in range(4)]
                await asyncio.sleep(0.01)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                assert (await client.get("orders", "a", timeout=5)).value == 1

    with serving(handle) as server:
        try:
            asyncio.run(ask(server.url))
        finally:
            finished.set()


@pytest.mark.slow
@pytest.mark.parametrize("late", [0.0, 0.05], ids=["idle", "busy"])
def test_timeout_includes_the_wait_for_a_free_connection(late: float) -> None:
    """Also if the event loop is busy when the time ends."""
    disconnected = threading.Event()

    async def occupy() -> None:
        await asyncio.sleep(0.18)
        time.sleep(late)

    async def ask(url: str) -> None:
        async with AsyncClient(url, connections=1) as client:
            async for _ in client.scan("orders", stream=True):
                with pytest.raises(NoAnswer):
                    await client.get("orders", "a", timeout=0.2)
                busy = asyncio.create_task(occupy())
                with pytest.raises(NoAnswer) as raised:
                    await client.scan("orders", stream=True, timeout=0.2).to_list()
                assert not raised.value.may_have_arrived
                await busy
                break

    with serving(lambda request: send_rows(request, disconnected)) as server:
        asyncio.run(asyncio.wait_for(ask(server.url), LONG))


@pytest.mark.parametrize("name", ["changes", "scan"])
@pytest.mark.slow
def test_a_stream_with_the_only_connection_outlasts_new_epochs(name: str) -> None:
    """Regression: it held the connection while the client asked for the view's description."""
    epochs = ["5-1", "5-2", "5-3"]

    def handle(request: RequestHandler) -> None:
        number = len(request.server.paths)
        request.send_response(200)
        request.send_header("Topology-Epoch", epochs[min(number, 3) - 1])
        request.send_header("Connection", "close")
        request.end_headers()
        row = b'{"key":"a","value":1}'
        event = b"id: 2:%d\nevent: value\ndata: %b\n\n" % (number, row)
        request.wfile.write(event if name == "changes" else row + b"\n")
        # the others are open for longer than the client waits for an answer
        with suppress(OSError):
            for _ in range(5 if number > 1 else 0):
                time.sleep(0.2)
                request.wfile.write(b": still there\n\n" if name == "changes" else row + b"\n")
        request.close_connection = True

    async def ask(url: str) -> None:
        async with AsyncClient(url, connections=1, timeout=0.5) as client:
            if name == "scan":
                for _ in range(3):
                    assert await client.scan("orders", stream=True).to_list()
                return
            seen = 0
            async for _ in client.changes("orders", "a", patience=2.0):
                seen += 1
                if seen == 3:
                    break

    with serving(handle) as server:
        asyncio.run(asyncio.wait_for(ask(server.url), LONG))


def test_closed_client_opens_new_connections() -> None:
    with serving(lambda request: request.respond(200, {"key": "a", "value": 1})) as server:
        client = Client(server.url)
        for _ in range(2):
            assert client.get("orders", "a").value == 1
            client.close()
