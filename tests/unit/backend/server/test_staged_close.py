"""A client that still sends when its request is refused can read the answer (RFC 9112, 9.6)."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from backend.http.asgi import Receive, Scope, Send
from backend.server import connection as connections
from backend.server import staged_close
from tests.support.running_server import TIMEOUT, App, answer, run, running_server, until

HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"
BAD = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n"


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Before the body has arrived."""
    await answer(send, b"refused", 413)


def sends_late(port: int, first: bytes) -> tuple[bytes, bool]:
    """Sends `first`, waits until the answer has arrived, sends more, and only then reads. The
    answer, and whether the connection was reset."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as client:
        client.sendall(first)
        client.recv(1, socket.MSG_PEEK)
        for _ in range(20):
            client.sendall(b"x" * 10_000)
        received = b""
        try:
            while chunk := client.recv(65536):
                received += chunk
        except ConnectionResetError:
            return received, True
        return received, False


@pytest.mark.parametrize(("request_", "status"), [(HEAD, b"413"), (BAD, b"400")])
def test_a_client_that_sends_on_gets_the_answer(request_: bytes, status: bytes) -> None:
    """Regression: the connection was reset, which discards the answer."""

    async def main() -> None:
        async with running_server(App(refuse)) as (server, port):
            received, was_reset = await asyncio.to_thread(sends_late, port, request_)
            assert received.startswith(b"HTTP/1.1 " + status)
            assert not was_reset
            await until(lambda: not server.connections, "the end of the connection")

    run(main())


def test_the_server_waits_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLOSE_SECONDS", 0.05)

    async def main() -> None:
        async with running_server(App(refuse)) as (server, port):
            with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as client:
                client.sendall(HEAD)
                await until(lambda: server.connections, "the connection")
                await until(lambda: not server.connections, "the end of the connection")

    run(main())


def test_the_server_discards_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLOSE_SECONDS", 10 * TIMEOUT)
    monkeypatch.setattr(staged_close, "_MAX_BYTES", 100_000)

    async def main() -> None:
        async with running_server(App(refuse)) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD)
            await reader.read(1)
            with suppress(ConnectionError):
                while server.connections:
                    writer.write(b"x" * 50_000)
                    await writer.drain()
                    await asyncio.sleep(0)
            await until(lambda: not server.connections, "the end of the connection")
            writer.close()

    run(main())


def test_a_server_that_stops_does_not_wait() -> None:
    async def main() -> None:
        async with running_server(App(refuse)) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD)
            await reader.read(1)
            [connection] = server.connections
            await until(lambda: connection.is_idle, "the refusal")
            connection.close()
            await until(lambda: not server.connections, "the end of the connection")
            writer.close()

    run(main())
