"""Tests of connections: the order of requests, limits, and closing."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from dataclasses import replace
from typing import Any

import pytest

from backend.http.asgi import Receive, Scope, Send
from backend.server import connection as connections
from backend.server.connection import Connection
from backend.server.server import Server
from tests.support.running_server import (
    LIMITS,
    TIMEOUT,
    App,
    answer,
    client,
    exchange,
    run,
    running_server,
    until,
)

FAST = b"GET /fast/%d HTTP/1.1\r\nHost: h\r\n\r\n"
SLOW = b"GET /slow/%d HTTP/1.1\r\nHost: h\r\nX-Other: 1\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


async def respond_path(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0)
    await answer(send, scope["raw_path"])


def bodies(responses: bytes) -> list[bytes]:
    """The bodies of responses that all have a Content-Length."""
    result, at = [], 0
    while at < len(responses):
        start = responses.index(b"\r\n\r\n", at) + 4
        lines = dict(
            line.lower().split(b": ", 1) for line in responses[at:start].split(b"\r\n")[1:-2]
        )
        at = start + int(lines[b"content-length"])
        result.append(responses[start:at])
    return result


def test_plain_and_other_requests_are_answered_in_order() -> None:
    app = App(respond_path)

    async def main() -> None:
        async with running_server(app) as (_, port):
            kinds = [FAST, SLOW, SLOW, FAST, FAST, SLOW, FAST]
            data = b"".join(kind % n for n, kind in enumerate(kinds))
            expected = [(kind % n).split()[1] for n, kind in enumerate(kinds)]
            assert bodies(await exchange(port, data + LAST)) == [*expected, b"/last"]
            app.calls = 0
            async with client(port) as (reader, writer):
                for n, kind in enumerate(kinds):
                    writer.write(kind % n)
                    head = await reader.readuntil(b"\r\n\r\n")
                    assert b"connection" not in head.lower()
                    assert await reader.readexactly(len(expected[n])) == expected[n]
            assert app.calls == kinds.count(SLOW)  # the others are answered without the application

    run(main())


def test_the_next_request_waits_for_the_application_to_return() -> None:
    events = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        events.append(scope["raw_path"])
        await answer(send, scope["raw_path"])
        await asyncio.sleep(0.05)
        events.append(b"end")

    async def main() -> None:
        async with running_server(App(handler)) as (_, port):
            data = SLOW % 1 + SLOW % 2 + LAST
            assert bodies(await exchange(port, data)) == [b"/slow/1", b"/slow/2", b"/last"]

    run(main())
    assert events == [b"/slow/1", b"end", b"/slow/2", b"end", b"/last", b"end"]


@pytest.mark.slow
def test_pipelined_requests_are_bounded_and_none_is_lost() -> None:
    count = 4_000
    long = FAST.replace(b"\r\n\r\n", b"\r\nX: %b\r\n\r\n" % (b"x" * 500))
    proceed = asyncio.Event()

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        await proceed.wait()
        await respond_path(scope, receive, send)

    async def main() -> None:
        async with running_server(App(handler)) as (server, port):
            data = SLOW % 0 + b"".join(long % n for n in range(count)) + LAST
            client_task = asyncio.create_task(exchange(port, data))
            await until(lambda: server.connections, "the connection")
            [connection] = server.connections
            await until(lambda: connection._is_reading_paused, "reading to be paused")
            assert len(data) > 4 * connection._pending.size
            proceed.set()
            answers = bodies(await client_task)
            assert len(answers) == count + 2
            assert answers[-2:] == [b"/fast/%d" % (count - 1), b"/last"]

    run(main())


async def is_refused(port: int) -> bool:
    """Whether a connection is closed without a response."""
    try:
        return await exchange(port, FAST % 1) == b""
    except ConnectionError:
        return True


def test_beyond_the_limit_new_connections_are_refused_if_all_are_busy() -> None:
    release = asyncio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        await release.wait()
        await answer(send, scope["raw_path"])

    async def main() -> None:
        limits = replace(LIMITS, worker_connections=2)
        app = App(wait)
        async with running_server(app, limits) as (server, port):
            async with client(port) as (one, to_one), client(port) as (_, to_other):
                to_one.write(LAST)
                to_other.write(LAST)
                await until(lambda: app.calls == 2, "two requests")
                assert await is_refused(port)
                release.set()
                assert bodies(await one.read()) == [b"/last"]
            await until(lambda: len(server.connections) == 0, "both to be closed")
            assert bodies(await exchange(port, FAST % 1 + LAST)) == [b"/fast/1", b"/last"]

    run(main())


@pytest.mark.slow
def test_only_idle_connections_are_closed_after_the_keepalive_timeout() -> None:
    async def main() -> None:
        async with running_server(App(respond_path), replace(LIMITS, keepalive=1.0)) as (_, port):
            loop = asyncio.get_running_loop()
            async with client(port) as (reader, writer):
                for n in range(6):
                    await asyncio.sleep(0.25)
                    writer.write((FAST, SLOW)[n % 2] % n)
                    await reader.readuntil(b"/%d" % n)
                last_used = loop.time()
                assert await asyncio.wait_for(reader.read(), TIMEOUT) == b""
                assert loop.time() - last_used > 0.9

    run(main())


def test_a_connection_that_sends_no_request_is_closed() -> None:
    async def main() -> None:
        async with running_server(App(request_timeout=0.1)) as (server, port):
            assert await exchange(port, b"") == b""
            assert (await exchange(port, b"GET / HT")).startswith(
                b"HTTP/1.1 408 Request Timeout\r\n"
            )
            await until(lambda: not server.connections, "the end of the connections")

    run(main())


def test_a_stopping_server_finishes_the_request_and_closes_the_connection() -> None:
    async def main() -> None:
        async with running_server(App(respond_path)) as (server, port):
            server.keeps_connections = False
            for request in (FAST % 1, SLOW % 1):
                response = await exchange(port, request + FAST % 2)
                assert b"connection: close\r\n" in response
                assert response.count(b"HTTP/1.1 200") == 1

    run(main())


def test_after_a_disconnect_the_application_is_notified_and_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_DISCONNECT_GRACE", 0.05)
    events: list[str] = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["more_body"] is False
        events.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200})  # is discarded
        try:
            await asyncio.sleep(10 * TIMEOUT)
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    async def main() -> None:
        app = App(handler)
        async with running_server(app) as (_, port):
            async with client(port) as (_, writer):
                writer.write((SLOW % 1).replace(b"GET", b"POST"))
                await until(lambda: app.calls, "the call")
            await until(lambda: "cancelled" in events, "the end of the call")

    run(main())
    assert events == ["http.disconnect", "cancelled"]


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_after_a_disconnect_a_read_is_cancelled_at_once(
    monkeypatch: pytest.MonkeyPatch, method: bytes
) -> None:
    """Regression: the reads of an attacker went on for 3 s after it had left."""
    monkeypatch.setattr(connections, "_DISCONNECT_GRACE", 100 * TIMEOUT)
    ended: list[str] = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.sleep(10 * TIMEOUT)
        finally:
            ended.append(scope["method"])

    async def main() -> None:
        app = App(handler)
        async with running_server(app) as (_, port):
            async with client(port) as (_, writer):
                writer.write((SLOW % 1).replace(b"GET", method))
                await until(lambda: app.calls, "the call")
            await until(lambda: ended, "the end of the call")

    run(main())
    assert ended == [method.decode()]


def test_a_client_that_does_not_read_pauses_the_application_and_is_disconnected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent = 0

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(10_000):
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
            sent += 10_000

    async def main() -> None:
        async with running_server(App(handler, send_timeout=0.2)) as (server, port):
            with socket.socket() as reader:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                reader.connect(("127.0.0.1", port))
                reader.sendall(SLOW % 1)
                await until(lambda: server.connections, "the connection")
                [connection] = server.connections
                await until(lambda: connection._is_writing_paused, "the application to wait")
                sent_until_pause = sent
                await until(lambda: not connection.is_open, "the connection to be closed")
                assert 0 < sent_until_pause <= 50_000_000

    run(main())
    assert "a client has read nothing for 0.2 s" in caplog.text


class Transport:
    """A transport whose client reads nothing."""

    def __init__(self) -> None:
        self.unread = 0
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.unread += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("127.0.0.1", 1) if name.endswith("name") else None

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


def test_a_closing_connection_is_aborted_if_its_client_does_not_read() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        transport = Transport()
        connection = Connection(Server(App(send_timeout=0.05), LIMITS, loop))
        connection.connection_made(transport)
        connection.data_received(FAST % 1)
        connection.close()
        assert not transport.is_aborted
        await until(lambda: transport.is_aborted, "the abort")
        connection.connection_lost(None)

    run(main())


@pytest.mark.parametrize("data", [b"", FAST % 1, SLOW % 1, b"GET / HT"])
def test_a_closed_connection_is_garbage_collected(data: bytes) -> None:
    """The parser refers to the connection, and the garbage collector cannot see this reference."""
    references: list[weakref.ref[Any]] = []

    async def main() -> None:
        async with running_server(App(respond_path)) as (server, port):
            for _ in range(5):
                async with client(port) as (reader, writer):
                    writer.write(data)
                    await until(lambda: server.connections, "the connection")
                    references.extend(weakref.ref(opened) for opened in server.connections)
                    if data in (FAST % 1, SLOW % 1):
                        await reader.readuntil(b"/1")
                await until(lambda: not server.connections, "it to be closed")

    run(main())
    gc.collect()
    assert len(references) >= 5
    assert [alive for reference in references if (alive := reference()) is not None] == []
