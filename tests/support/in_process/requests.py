"""Requests to the ASGI application of an instance, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from backend.http.router import Router
from backend.security.cluster import ClusterAccess
from backend.security.cluster_secret import ClusterSecret
from backend.security.connection_key import EXTENSION, ConnectionKey
from backend.security.signatures import HEADER
from backend.wire.answer import Answer, Header
from tests.support.in_process.instance import context

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


def router_of(secret: ClusterSecret | None) -> Router:
    """The router of the instance b1."""
    here = context()
    if secret is not None:
        here.cluster = ClusterAccess(secret, "b1")
    return Router(here, None)  # type: ignore[arg-type]


def posted(
    router: Router,
    path: str,
    body: bytes | None,
    header: bytes | None = None,
    client: str = "",
    more: Sequence[Header] = (),
    method: str = "POST",
    key: ConnectionKey | None = None,
) -> Answer:
    """The answer to a request with a body, for an internal route. `body`: None if it must not be
    read; `header`: the signature of the request; `key`: the key of its connection."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        assert body is not None, "the body was read"
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def ask() -> None:
        headers = [*([] if header is None else [(HEADER, header)]), *more]
        scope = {"type": "http", "raw_path": path.encode(), "method": method, "headers": headers,
                 "query_string": b"", "client": (client, 1) if client else None,
                 "extensions": {} if key is None else {EXTENSION: key}}  # fmt: skip
        try:
            await router(scope, receive, send)
        finally:
            await router.stop()

    asyncio.run(ask())
    return Answer(sent[0]["status"], sent[0]["headers"], sent[1]["body"])
