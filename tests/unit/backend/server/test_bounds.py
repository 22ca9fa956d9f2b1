"""What all connections share: who gives way when there are too many, or too many unread bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

import pytest

from backend.http.asgi import CLIENT_EXTENSION, Receive, Scope, Send
from tests.support.running_server import (
    LIMITS,
    TIMEOUT,
    App,
    answer,
    client,
    run,
    running_server,
    until,
)

FAST = b"GET /fast HTTP/1.1\r\nHost: h\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n"
ATTACKER = "127.0.0.66"
_MB = 1 << 20

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def attacker(port: int) -> AsyncIterator[Streams]:
    """A connection from another address."""
    streams = await asyncio.open_connection("127.0.0.1", port, local_addr=(ATTACKER, 0))
    try:
        yield streams
    finally:
        streams[1].close()
        with suppress(OSError):
            await streams[1].wait_closed()


async def ask(streams: Streams) -> bytes:
    streams[1].write(FAST)
    return await asyncio.wait_for(streams[0].readuntil(b"/fast"), TIMEOUT)


async def is_closed(streams: Streams) -> bool:
    try:
        return await asyncio.wait_for(streams[0].read(), TIMEOUT) == b""
    except ConnectionError:
        return True


def test_an_address_with_many_connections_does_not_keep_others_out() -> None:
    async def main() -> None:
        limits = replace(LIMITS, worker_connections=10)
        async with running_server(App(), limits) as (server, port), AsyncExitStack() as stack:
            honest = await stack.enter_async_context(client(port))
            await ask(honest)
            attackers = [await stack.enter_async_context(attacker(port)) for _ in range(9)]
            await until(lambda: len(server.connections) == 10, "all connections")
            newest = await stack.enter_async_context(client(port))
            assert (await ask(newest)).startswith(b"HTTP/1.1 200")
            assert await is_closed(attackers[0])
            assert (await ask(honest)).startswith(b"HTTP/1.1 200")
            await until(lambda: len(server.connections) == 10, "the limit")

    run(main())


def test_of_one_address_the_connection_whose_time_out_ends_first_gives_way() -> None:
    async def main() -> None:
        limits = replace(LIMITS, worker_connections=3, keepalive=75.0)
        async with running_server(App(), limits) as (_, port), AsyncExitStack() as stack:
            used = await stack.enter_async_context(client(port))
            await ask(used)  # 75 s
            part = await stack.enter_async_context(client(port))
            part[1].write(FAST[:20])  # 30 s
            await asyncio.wait_for(part[1].drain(), TIMEOUT)
            last = await stack.enter_async_context(client(port))
            await ask(last)
            newest = await stack.enter_async_context(client(port))
            await ask(newest)
            assert await is_closed(part)
            await ask(used)
            await ask(last)

    run(main())


def test_clients_that_do_not_read_give_way_when_too_many_bytes_wait() -> None:
    body = b"x" * (32 * _MB)  # much more than what the sockets' buffers take

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, body)

    async def main() -> None:
        app = App(respond)
        async with running_server(app) as (server, port), AsyncExitStack() as stack:
            honest = await stack.enter_async_context(client(port))
            honest[1].write(LARGE)
            await until(lambda: server.unread.total > 0, "an answer that waits")
            server.unread.limit = server.unread.total * 5 // 2
            for _ in range(6):
                _, writer = await stack.enter_async_context(attacker(port))
                writer.write(LARGE)
            await until(lambda: app.calls == 7, "all requests")
            await until(lambda: len(server.connections) == 2, "those over the limit to be closed")
            assert 0 < server.unread.total <= server.unread.limit
            await asyncio.wait_for(honest[0].readuntil(b"\r\n\r\n"), TIMEOUT)
            assert await asyncio.wait_for(honest[0].readexactly(len(body)), TIMEOUT) == body

    run(main())


def test_clients_of_one_address_are_told_apart() -> None:
    """A proxy has one address for all of its clients; the application knows them."""
    body = b"x" * (32 * _MB)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"][CLIENT_EXTENSION](scope["path"])
        await answer(send, body)

    async def main() -> None:
        app = App(respond)
        async with running_server(app) as (server, port), AsyncExitStack() as stack:
            honest = await stack.enter_async_context(client(port))
            honest[1].write(LARGE)
            await until(lambda: server.unread.total > 0, "an answer that waits")
            server.unread.limit = server.unread.total * 5 // 2
            for _ in range(6):
                _, writer = await stack.enter_async_context(client(port))
                writer.write(LARGE.replace(b"large", b"hostile"))
            await until(lambda: app.calls == 7, "all requests")
            await until(lambda: len(server.connections) == 2, "those over the limit to be closed")
            await asyncio.wait_for(honest[0].readuntil(b"\r\n\r\n"), TIMEOUT)
            assert await asyncio.wait_for(honest[0].readexactly(len(body)), TIMEOUT) == body

    run(main())


def test_bytes_that_were_read_or_whose_client_has_left_do_not_count() -> None:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"x" * (8 * _MB))

    async def main() -> None:
        async with running_server(App(respond)) as (server, port):
            async with client(port) as (reader, writer):
                writer.write(LARGE)
                await until(lambda: server.unread.total > 0, "an answer that waits")
                await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT)
                await asyncio.wait_for(reader.readexactly(8 * _MB), TIMEOUT)
                await until(lambda: server.unread.total == 0, "it to be read")
                writer.write(LARGE)
                await until(lambda: server.unread.total > 0, "another one that waits")
            await until(lambda: server.unread.total == 0, "the end of the connection")

    run(main())


@pytest.mark.slow
@pytest.mark.parametrize("bodies", [1, 8])
def test_bodies_in_tiny_chunks_do_not_delay_others(bodies: int) -> None:
    """Each of 300,000 chunks costs the parser a call; a read waits for some of them only, also if
    they are of several bodies."""
    chunks = 300_000 // bodies
    waits: list[float] = []

    async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await answer(send, b"%d" % size)

    async def main() -> None:
        async with running_server(App(read_all)) as (_, port), AsyncExitStack() as stack:
            honest = await stack.enter_async_context(client(port))
            hostile = [await stack.enter_async_context(attacker(port)) for _ in range(bodies)]
            loop, turns = asyncio.get_running_loop(), 0

            def count() -> None:
                nonlocal turns
                turns += 1
                loop.call_soon(count)

            await ask(honest)
            for _, writer in hostile:
                writer.write(
                    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + b"1\r\na\r\n" * chunks
                    + b"0\r\n\r\n"
                )
            count()
            for reader, _ in hostile:
                await asyncio.wait_for(reader.readuntil(b"%d" % chunks), TIMEOUT)
            waits.append(turns)

    run(main())
    # 1.8 MB: a slice of 16 KiB in a turn, not all that one receive call returns
    assert waits[0] > 100
