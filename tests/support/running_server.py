"""Runs an application with a handler of the test behind a real server on 127.0.0.1."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import uvloop

from backend.http.asgi import Receive, Scope, Send
from backend.server.handshake import connection_factory
from backend.server.server import Limits, Server
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPoll, PlainPost

LIMITS = Limits(
    keepalive=30.0,
    worker_connections=100,
    limit_request_line=32768,
    limit_request_fields=100,
    limit_request_field_size=8190,
)
TIMEOUT = 60.0  # s; long enough for a loaded machine

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


async def respond_ok(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, b"ok")


async def answer(send: Send, body: bytes, status: int = 200, **headers: str) -> None:
    lines = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    lines.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


@dataclass
class App:
    """An application that answers paths below /fast without ASGI, and others with `handler`."""

    handler: Handler = respond_ok
    request_timeout: float = 30.0
    send_timeout: float = 30.0
    calls: int = 0
    forwarding: list[tuple[bytes, Callable[[Answer | None], None]]] = field(default_factory=list)

    @property
    def fast_path(self) -> App:
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        await self.handler(scope, receive, send)

    def allows_host(self, host: bytes) -> bool:
        return host != b"other.example"

    def answer_now(self, raw_path: bytes, token: bytes | None) -> Answer | None:
        if not raw_path.startswith(b"/fast"):
            return None
        return Answer(200, [(b"content-length", b"%d" % len(raw_path))], raw_path)

    def forward_now(
        self, raw_path: bytes, token: bytes | None, ended: Callable[[Answer | None], None]
    ) -> bool:
        if not raw_path.startswith(b"/forwarded"):
            return False
        self.forwarding.append((raw_path, ended))
        return True

    def reads_now(self, reads: PlainPost, client: str, has_certificate: bool) -> Answer:
        assert client == "127.0.0.1"
        return Answer(200, [(b"content-length", b"%d" % len(reads.body))], reads.body)

    def heartbeat_now(self, heartbeat: PlainPost, client: str, has_certificate: bool) -> Answer:
        assert client == "127.0.0.1"
        return Answer(200, [(b"content-length", b"%d" % len(heartbeat.body))], heartbeat.body)

    def unchanged_now(self, poll: PlainPoll, client: str, has_certificate: bool) -> Answer | None:
        assert client == "127.0.0.1"
        return Answer(304, [(b"etag", poll.etag)], b"") if poll.etag == b'"latest"' else None

    def drain(self) -> float:
        return 0.0


@asynccontextmanager
async def running_server(
    app: App, limits: Limits = LIMITS, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Server, int]]:
    """The running server, and the port on which it listens."""
    loop = asyncio.get_running_loop()
    server = Server(app, limits, loop)
    listener = await loop.create_server(connection_factory(server, tls), "127.0.0.1", 0)
    try:
        yield server, listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for connection in list(server.connections):
            connection.abort()


@asynccontextmanager
async def client(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def exchange(port: int, data: bytes) -> bytes:
    """Send `data`; returns all bytes until the server closes the connection."""
    async with client(port) as (reader, writer):
        writer.write(data)
        return await asyncio.wait_for(reader.read(), TIMEOUT)


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for the condition in the event loop of the server."""
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"waited {TIMEOUT} s for {what}"
        await asyncio.sleep(0.005)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run in an event loop of the same kind as the worker's."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_without_open_connections(coroutine))


async def _without_open_connections(coroutine: Coroutine[Any, Any, None]) -> None:
    """If it fails, its frames would keep its connections open, and `close` of uvloop's loop waits
    for them for ever."""
    try:
        await coroutine
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        await asyncio.sleep(0)
        raise
