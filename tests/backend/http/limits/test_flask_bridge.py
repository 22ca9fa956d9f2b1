"""Flask's threads outlive clients that leave."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

from backend.http.flask_bridge import flask_bridge

TIMEOUT = 20.0  # s
CHUNKS = 50  # more than a2wsgi's queue takes


def pages(environ: Any, start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [])
    for _ in range(CHUNKS):
        yield b"x"


def test_clients_that_leave_keep_no_threads() -> None:
    """There are four; a thread whose client had left waited for ever."""

    async def main() -> None:
        bridge = flask_bridge(cast(Any, pages))
        scope: Any = {
            "type": "http", "method": "GET", "path": "/metrics", "query_string": b"", "headers": [],
            "http_version": "1.1", "server": ("h", 1), "client": ("h", 2), "root_path": "",
            "scheme": "http",
        }  # fmt: skip

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def ask(started: asyncio.Event) -> int:
            size = 0

            async def send(message: Any) -> None:
                nonlocal size
                size += len(message.get("body", b""))
                started.set()
                await asyncio.sleep(0)

            await bridge(scope, receive, send)
            return size

        for _ in range(8):
            started = asyncio.Event()
            leaving = asyncio.create_task(ask(started))
            await started.wait()
            leaving.cancel()
            await asyncio.wait([leaving])
            assert leaving.cancelled()
        async with asyncio.timeout(TIMEOUT):
            assert await ask(asyncio.Event()) == CHUNKS

    asyncio.run(main())
