"""Flask's threads outlive clients that leave, and those of KIQR's dialect are only for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, cast

from backend.http.flask_bridge import PAGE_KIND, flask_bridge, page_kind
from backend.http.router import Router
from model.topology import Epoch, Topology
from tests.support.in_process.instance import context

TIMEOUT = 10.0  # s
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
            "scheme": "http", PAGE_KIND: page_kind("/metrics"),
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


SLOW = "/api/v1/kv/orders/count"


def test_requests_of_kiqr_keep_out_neither_documents_nor_other_clients() -> None:
    may_end = threading.Event()

    def slow_pages(environ: Any, start_response: Any) -> Iterator[bytes]:
        if environ["PATH_INFO"] == SLOW:
            may_end.wait(TIMEOUT)
        start_response("200 OK", [])
        yield b"x"

    async def main() -> None:
        served = context()
        served.group.apply_topology(Topology(Epoch(5, 1)))  # before, no view is unknown
        router = Router(served, flask_bridge(cast(Any, slow_pages)))

        async def ask(client: str, path: str) -> int:
            sent: list[Any] = []
            scope: Any = {
                "type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
                "query_string": b"", "headers": [], "http_version": "1.1", "server": ("h", 1),
                "client": (client, 2), "root_path": "", "scheme": "http",
            }  # fmt: skip

            async def receive() -> Any:
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            await router(scope, receive, send)
            status: int = sent[0]["status"]
            return status

        try:
            first = [asyncio.create_task(ask("10.0.0.1", SLOW)) for _ in range(190)]
            await asyncio.sleep(0)
            async with asyncio.timeout(TIMEOUT):
                assert await ask("10.0.0.2", "/api/v1/kv/orders") == 200, "it waits for no thread"
            second = [asyncio.create_task(ask("10.0.0.3", SLOW)) for _ in range(300)]
            await asyncio.sleep(0)
            async with asyncio.timeout(TIMEOUT):
                for path in ("/metrics", "/openapi.json", "/api/v1/kv/nobody"):
                    assert await ask("10.0.0.4", path) == 200
        finally:
            may_end.set()
        assert set(await asyncio.gather(*first)) == {200}
        assert set(await asyncio.gather(*second)) == {200, 503}

    asyncio.run(main())
