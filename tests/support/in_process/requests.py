"""A request to the ASGI application of an instance, without a server."""

from __future__ import annotations

import asyncio
from typing import Any

from backend.http.router import Router

LOOPBACK = "127.0.0.1"


def asked(shell: Router, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, bytes]:
    sent: list[Any] = []
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "client": (LOOPBACK, 1),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def ask() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        await shell(scope, None, send)  # type: ignore[arg-type]

    asyncio.run(ask())
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]
