"""An ASGI application that answers point reads (`{path}/{key}`) like a backend, from Redis.

BENCH_REDIS is the port of Redis on 127.0.0.1. A minimal client pipelines all requests on one
connection; a library would cost more. Source: Redis serialization protocol specification (RESP2).
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
_JSON = (b"content-type", b"application/json")


class Client(asyncio.Protocol):
    """Sends GETs; Redis answers in the order of the requests."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bytes | None]] = deque()
        self._received = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(ConnectionError("Redis closed the connection"))

    def get(self, key: bytes) -> asyncio.Future[bytes | None]:
        """The value; None if the key does not exist."""
        future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._transport.write(b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key))
        return future

    def data_received(self, data: bytes) -> None:
        values, self._received = split_replies(self._received + data)
        for value in values:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(value)


def split_replies(received: bytes) -> tuple[list[bytes | None], bytes]:
    """Returns the complete bulk strings (None: a null) and the remaining bytes; ValueError if
    Redis sends anything else."""
    values: list[bytes | None] = []
    at = 0
    while (line_end := received.find(b"\r\n", at)) >= 0:
        if received[at : at + 1] != b"$":
            raise ValueError(f"unexpected reply of Redis: {received[at:line_end]!r}")
        size = int(received[at + 1 : line_end])
        start = line_end + 2
        if size < 0:
            values.append(None)
            at = start
        elif len(received) >= start + size + 2:
            values.append(received[start : start + size])
            at = start + size + 2
        else:
            break
    return values, received[at:]


class Application:
    """Answers point reads only."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._client = Client()

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        key = scope["raw_path"].rpartition(b"/")[2]
        value = await self._client.get(key)
        status, body = 404, b"{}"
        if value is not None:
            status, body = 200, b'{"key":"%b","value":%b}' % (key, value)
        headers = [_JSON, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _lifespan(
        self,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.startup":
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: self._client, "127.0.0.1", self._port)
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return


def create() -> Application:
    return Application(int(os.environ["BENCH_REDIS"]))
