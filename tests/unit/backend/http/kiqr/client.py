"""A client of the KIQR dialect of an in-process instance."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from flask.testing import FlaskClient

from backend.http.flask_app import create_flask_app
from backend.http.kiqr.raw_reads import RawReads
from backend.queries.scans.partition_scan import PartitionScans
from backend.queries.scans.scatter_gather import ScatterGather
from backend.queries.whole_view.registry import VIEW_QUERIES
from tests.support.in_process.world import World


@contextmanager
def asking(made: World, instance: str = "b1") -> Iterator[FlaskClient]:
    """A client of an instance. Its event loop runs in another thread."""
    served = made.instances[instance].context
    reads = RawReads(served)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> None:
        scans = PartitionScans(served, {query.name: query.reducer for query in VIEW_QUERIES})
        reads.start(
            made.routers[instance].keys, ScatterGather(served, scans, cast(Any, made.peers))
        )

    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(5)
        with create_flask_app(served, reads).test_client() as client:
            yield client
    finally:
        asyncio.run_coroutine_threadsafe(_settled(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _settled() -> None:
    """Waits for cancelled tasks."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
