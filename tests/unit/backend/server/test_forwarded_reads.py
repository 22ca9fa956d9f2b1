"""Plain reads for which a connection waits while another instance is asked."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest

from backend.server import connection as connections
from backend.wire.answer import Answer
from tests.support.running_server import (
    LIMITS,
    TIMEOUT,
    App,
    client,
    run,
    running_server,
    until,
)
from tests.unit.backend.server.test_connection import FAST, LAST, SLOW, bodies, respond_path

FORWARDED = b"GET /forwarded/%d HTTP/1.1\r\nHost: h\r\n\r\n"


def end(app: App) -> None:
    """Another instance has answered the oldest read that waits."""
    path, ended = app.forwarding.pop(0)
    ended(Answer(200, [(b"content-length", b"%d" % len(path))], path))


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
def test_later_requests_wait_for_the_answer(together: bool) -> None:
    app = App(respond_path)
    kinds = [FORWARDED, FAST, SLOW, FORWARDED, SLOW, FORWARDED, FAST]
    requests = [kind % n for n, kind in enumerate(kinds)]

    async def main() -> None:
        async with running_server(app) as (_, port), client(port) as (reader, writer):
            for request in requests if not together else [requests[0], b"".join(requests[1:])]:
                writer.write(request)
                await asyncio.sleep(0.05)
            assert len(app.forwarding) == 1
            assert not reader._buffer  # type: ignore[attr-defined]
            writer.write(LAST)
            end(app)
            answers = await asyncio.wait_for(reader.read(), TIMEOUT)
            assert bodies(answers) == [*(each.split()[1] for each in requests), b"/last"]

    run(main())


def test_a_connection_is_kept_after_the_answer() -> None:
    app = App(respond_path)

    async def main() -> None:
        async with running_server(app) as (server, port), client(port) as (reader, writer):
            for n, kind in enumerate([FORWARDED, FORWARDED, FAST, FORWARDED, SLOW]):
                writer.write(kind % n)
                if kind is FORWARDED:
                    await until(lambda: app.forwarding, "the forward")
                    [connection] = server.connections
                    assert not connection.is_idle
                    end(app)
                await reader.readuntil(b"\r\n\r\n")
                path = (kind % n).split()[1]
                assert await reader.readexactly(len(path)) == path
            assert app.calls == 1

    run(main())


def test_without_an_answer_the_application_gets_the_request() -> None:
    app = App(respond_path)

    async def main() -> None:
        async with running_server(app) as (_, port), client(port) as (reader, writer):
            writer.write(FORWARDED % 1)
            await until(lambda: app.forwarding, "the forward")
            writer.write(SLOW % 2 + LAST)
            await asyncio.sleep(0.05)
            app.forwarding.pop()[1](None)
            answers = await asyncio.wait_for(reader.read(), TIMEOUT)
            assert bodies(answers) == [b"/forwarded/1", b"/slow/2", b"/last"]
            assert app.calls == 3

    run(main())


@pytest.mark.parametrize("line", [b"traceparent: x", b"TraceParent: x", b"X-Other: 1"])
def test_a_read_with_an_id_is_left_to_the_application(line: bytes) -> None:
    app = App(respond_path)

    async def main() -> None:
        async with running_server(app) as (_, port), client(port) as (reader, writer):
            writer.write((FORWARDED % 1).replace(b"Host: h", b"Host: h\r\n" + line))
            assert await reader.readuntil(b"/forwarded/1")
            assert app.calls == 1

    run(main())


@pytest.mark.slow
def test_a_waiting_connection_is_not_idle() -> None:
    app = App(respond_path)

    async def main() -> None:
        limits = replace(LIMITS, keepalive=0.05)
        async with running_server(app, limits) as (_, port), client(port) as (reader, writer):
            writer.write(FORWARDED % 1)
            await until(lambda: app.forwarding, "the forward")
            await asyncio.sleep(0.2)
            end(app)
            assert bodies(await asyncio.wait_for(reader.read(), TIMEOUT)) == [b"/forwarded/1"]

    run(main())


@pytest.mark.parametrize("more", [b"", FAST % 2])
def test_a_stopping_server_sends_the_answer_first(more: bytes) -> None:
    app = App(respond_path)

    async def main() -> None:
        async with running_server(app) as (server, port), client(port) as (reader, writer):
            writer.write(FORWARDED % 1)
            await until(lambda: app.forwarding, "the forward")
            writer.write(more)
            await asyncio.sleep(0.05)
            server.keeps_connections = False
            end(app)
            response = await asyncio.wait_for(reader.read(), TIMEOUT)
            assert b"connection: close\r\n" in response
            assert bodies(response) == [b"/forwarded/1"]

    run(main())


@pytest.mark.slow
def test_what_a_client_sends_meanwhile_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_MAX_PENDING", 1000)
    app = App(respond_path)
    requests = [FAST % n for n in range(20_000)]

    async def main() -> None:
        async with running_server(app) as (server, port), client(port) as (reader, writer):
            writer.write(FORWARDED % 1)
            await until(lambda: app.forwarding, "the forward")
            [connection] = server.connections
            sending = asyncio.create_task(_send(writer, requests))
            await until(lambda: connection._is_reading_paused, "a pause")
            assert connection._pending.size < 400_000
            end(app)
            answers = await asyncio.wait_for(reader.read(), 4 * TIMEOUT)
            assert bodies(answers)[1:] == [*(each.split()[1] for each in requests), b"/last"]
            await sending

    run(main())


async def _send(writer: asyncio.StreamWriter, requests: list[bytes]) -> None:
    for at in range(0, len(requests), 100):
        writer.write(b"".join(requests[at : at + 100]))
        await writer.drain()
    writer.write(LAST)


def test_nothing_is_sent_after_a_disconnect() -> None:
    app = App(respond_path)
    references: list[weakref.ref[Any]] = []

    async def main() -> None:
        async with running_server(app) as (server, port):
            for kind in (None, 200):
                async with client(port) as (_, writer):
                    writer.write(FORWARDED % 1)
                    await until(lambda: app.forwarding, "the forward")
                    references.extend(weakref.ref(opened) for opened in server.connections)
                await until(lambda: not server.connections, "it to be closed")
                if kind is None:
                    app.forwarding.pop()[1](None)
                else:
                    end(app)
            assert app.calls == 0

    run(main())
    gc.collect()
    assert [alive for reference in references if (alive := reference()) is not None] == []
