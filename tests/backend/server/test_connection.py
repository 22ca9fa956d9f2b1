"""A connection: the order of its requests, its bounds, and its end."""

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
from tests.backend.server.running_server import (
    LIMITS,
    SOON,
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


async def say_path(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0)
    await answer(send, scope["raw_path"])


def bodies(responses: bytes) -> list[bytes]:
    """The bodies of responses that all have a Content-Length."""
    found, at = [], 0
    while at < len(responses):
        begin = responses.index(b"\r\n\r\n", at) + 4
        lines = dict(
            line.lower().split(b": ", 1) for line in responses[at:begin].split(b"\r\n")[1:-2]
        )
        at = begin + int(lines[b"content-length"])
        found.append(responses[begin:at])
    return found


def test_requests_of_both_kinds_are_answered_in_their_order() -> None:
    app = App(say_path)

    async def main() -> None:
        async with running_server(app) as (_, port):
            kinds = [FAST, SLOW, SLOW, FAST, FAST, SLOW, FAST]
            data = b"".join(kind % n for n, kind in enumerate(kinds))
            expected = [data_.split()[1] for data_ in (k % n for n, k in enumerate(kinds))]
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
    order = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        order.append(scope["raw_path"])
        await answer(send, scope["raw_path"])
        await asyncio.sleep(0.05)
        order.append(b"end")

    async def main() -> None:
        async with running_server(App(handler)) as (_, port):
            data = SLOW % 1 + SLOW % 2 + LAST
            assert bodies(await exchange(port, data)) == [b"/slow/1", b"/slow/2", b"/last"]

    run(main())
    assert order == [b"/slow/1", b"end", b"/slow/2", b"end", b"/last", b"end"]


def test_requests_that_wait_are_bounded_and_none_is_lost() -> None:
    count = 4_000
    long = FAST.replace(b"\r\n\r\n", b"\r\nX: %b\r\n\r\n" % (b"x" * 500))
    may_go = asyncio.Event()

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        await may_go.wait()
        await say_path(scope, receive, send)

    async def main() -> None:
        async with running_server(App(handler)) as (server, port):
            data = SLOW % 0 + b"".join(long % n for n in range(count)) + LAST
            asking = asyncio.create_task(exchange(port, data))
            await until(lambda: server.connections, "the connection")
            [connection] = server.connections
            await until(lambda: connection._reading_pauses, "it to read no more")
            assert len(data) > 4 * connection._later_size
            may_go.set()
            found = bodies(await asking)
            assert len(found) == count + 2
            assert found[-2:] == [b"/fast/%d" % (count - 1), b"/last"]

    run(main())


async def refused(port: int) -> bool:
    """Whether a connection ends without an answer."""
    try:
        return await exchange(port, FAST % 1) == b""
    except ConnectionError:
        return True


def test_more_connections_than_allowed_are_closed() -> None:
    async def main() -> None:
        limits = replace(LIMITS, worker_connections=2)
        async with running_server(App(say_path), limits) as (server, port), client(port):
            async with client(port) as (reader, writer):
                await until(lambda: len(server.connections) == 2, "two connections")
                assert await refused(port)
                writer.write(FAST % 1 + LAST)
                assert bodies(await reader.read()) == [b"/fast/1", b"/last"]
            await until(lambda: len(server.connections) == 1, "one to leave")
            assert bodies(await exchange(port, FAST % 1 + LAST)) == [b"/fast/1", b"/last"]

    run(main())


def test_idle_connections_are_closed_and_used_ones_are_not() -> None:
    async def main() -> None:
        async with running_server(App(say_path), replace(LIMITS, keepalive=0.3)) as (_, port):
            loop = asyncio.get_running_loop()
            async with client(port) as (reader, writer):
                for n in range(8):
                    await asyncio.sleep(0.1)
                    writer.write((FAST, SLOW)[n % 2] % n)
                    await reader.readuntil(b"/%d" % n)
                used = loop.time()
                assert await asyncio.wait_for(reader.read(), SOON) == b""
                assert loop.time() - used > 0.25

    run(main())


def test_a_connection_that_sends_no_request_is_closed() -> None:
    async def main() -> None:
        async with running_server(App(request_timeout=0.1)) as (server, port):
            assert await exchange(port, b"") == b""
            assert (await exchange(port, b"GET / HT")).startswith(
                b"HTTP/1.1 408 Request Timeout\r\n"
            )
            assert server.connections == set()

    run(main())


def test_a_stopping_server_finishes_and_closes() -> None:
    async def main() -> None:
        async with running_server(App(say_path)) as (server, port):
            server.keeps_connections = False
            for request in (FAST % 1, SLOW % 1):
                response = await exchange(port, request + FAST % 2)
                assert b"connection: close\r\n" in response
                assert response.count(b"HTTP/1.1 200") == 1

    run(main())


def test_a_client_that_leaves_is_reported_and_its_call_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_DISCONNECT_GRACE", 0.05)
    seen: list[str] = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["more_body"] is False
        seen.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200})  # goes nowhere
        try:
            await asyncio.sleep(10 * SOON)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main() -> None:
        app = App(handler)
        async with running_server(app) as (_, port):
            async with client(port) as (_, writer):
                writer.write(SLOW % 1)
                await until(lambda: app.calls, "the call")
            await until(lambda: "cancelled" in seen, "the end of the call")

    run(main())
    assert seen == ["http.disconnect", "cancelled"]


def test_a_client_that_does_not_read_pauses_the_application_and_is_closed(
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
                await until(lambda: connection._writing_pauses, "the application to wait")
                waits_at = sent
                await until(lambda: not connection.is_open, "its end")
                assert 0 < waits_at <= 50_000_000

    run(main())
    assert "a client has read nothing for 0.2 s" in caplog.text


class Transport:
    """Of a client that reads nothing: what is written to it stays there."""

    def __init__(self) -> None:
        self.unread = 0
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.unread += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


def test_a_closed_connection_does_not_wait_for_its_client_for_ever() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        transport = Transport()
        connection = Connection(Server(App(send_timeout=0.05), LIMITS, loop))
        connection.connection_made(transport)
        connection.data_received(FAST % 1)
        connection.close()
        assert not transport.is_aborted
        await until(lambda: transport.is_aborted, "the end")
        connection.connection_lost(None)

    run(main())


@pytest.mark.parametrize("request_", [b"", FAST % 1, SLOW % 1, b"GET / HT"])
def test_nothing_of_a_connection_stays(request_: bytes) -> None:
    """The parser refers to the connection, and the garbage collector does not look into it."""
    left: list[weakref.ref[Any]] = []

    async def main() -> None:
        async with running_server(App(say_path)) as (server, port):
            for _ in range(5):
                async with client(port) as (reader, writer):
                    writer.write(request_)
                    await until(lambda: server.connections, "the connection")
                    left.extend(weakref.ref(each) for each in server.connections)
                    if request_ in (FAST % 1, SLOW % 1):
                        await reader.readuntil(b"/1")
                await until(lambda: not server.connections, "its end")

    run(main())
    gc.collect()
    assert len(left) >= 5
    assert [each() for each in left if each() is not None] == []
