"""Documents of the admin page that wait for an instance do not keep other work waiting."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from backend.http.router import Router
from local.waiting import wait_until
from tests.unit.backend.admin.fakes import context, member, silent

DOCUMENTS = ("/admin/history", "/views/orders/versions", "/admin/deployment")
DRAIN = "/admin/instances/b9/drain"
TIMEOUT = 0.5  # s; a document waits for the silent instance for a second or two


async def ask(router: Router, client: str, path: str, method: str = "GET") -> int:
    sent: list[Any] = []
    scope: Any = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "client": (client, 1),
        "headers": [(b"content-type", b"application/json")],
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: Any) -> None:
        sent.append(message)

    await router(scope, receive, send)
    status: int = sent[0]["status"]
    return status


def document_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("admin-documents")}


@pytest.mark.slow
def test_an_instance_that_hangs_delays_neither_copies_nor_commands() -> None:
    # of routers that other tests have made, and that are not collected yet
    earlier = document_threads()

    async def main(router: Router) -> None:
        # as on two processors, or fewer
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        documents = [
            asyncio.create_task(ask(router, f"10.0.0.{client}", path))
            for path in DOCUMENTS
            for client in (1, 2)
            for _ in range(3)
        ]
        await asyncio.sleep(0.05)
        async with asyncio.timeout(TIMEOUT):
            await asyncio.to_thread(threading.get_ident)  # as the pieces of a copy are read
            assert await ask(router, "10.0.0.3", DRAIN, "POST") == 404, "not 503"
        assert document_threads() - earlier
        assert set(await asyncio.gather(*documents)) == {200, 503}
        await router._admin.stop()

    with silent() as port:
        served = context(member("b1"), member("b2", port), active=(0,))
        asyncio.run(main(Router(served, None)))  # type: ignore[arg-type]
    wait_until(lambda: not document_threads() - earlier, 10, "the threads to end")
