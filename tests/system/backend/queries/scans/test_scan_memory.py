"""A stream of a whole view takes the memory of some pages, however many entries there are."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from backend.http.router import Router
from backend.storage.data_directory import DataDirectory
from backend.storage.options import Tuning
from model.records import ENTRY, entry_head
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import Instance

ROOT = Path(__file__).parents[5]
ENTRIES, PARTITIONS = 300_000, 3
MOST = 6_000  # kB; the lines alone are 36,000
# what RocksDB keeps is bounded by settings: little of it, or it hides the rest
TUNING = Tuning(cache=4 << 20, write_buffers=2 << 20, write_buffer=1 << 20)


def test_memory_does_not_grow_with_the_view(tmp_path: Path) -> None:
    """In a process of its own, for the peak of one is told for all of its life."""
    command = [
        sys.executable,
        "-m",
        "tests.system.backend.queries.scans.test_scan_memory",
        str(tmp_path),
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    entries, before, peak = map(int, ran.stdout.split())
    assert entries == ENTRIES
    assert peak - before < MOST, f"kB: {before} before, {peak} at most"


def _resident(name: str) -> int:
    """kB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(name))


def _fill(instance: Instance) -> None:
    for partition in range(PARTITIONS):
        store = instance.hold(partition).store
        for start in range(partition, ENTRIES, 30_000 * PARTITIONS):
            batch = store.new_batch()
            for n in range(start, min(start + 30_000 * PARTITIONS, ENTRIES), PARTITIONS):
                value = b'{"id":%d,"note":"%072x"}' % (n, n * n)
                batch.put(ENTRY + b"customer-%07d" % n, entry_head(7, n) + value)
            store.write(batch, ENTRIES)


async def _stream(router: Router, query: bytes = b"") -> int:
    """How many lines came."""
    lines = 0

    async def receive() -> Any:
        raise AssertionError("a GET has no body")

    async def send(message: Any) -> None:
        nonlocal lines
        lines += message.get("body", b"").count(b"\n")

    scope = {
        "raw_path": b"/views/orders/keys",
        "query_string": query,
        "method": "GET",
        "headers": [(b"accept", b"application/x-ndjson")],
    }
    await router(scope, receive, send)
    return lines


def _main(root: Path) -> None:
    instance = Instance(DataDirectory(root, TUNING), ORDERS)
    instance.place(*[0] * PARTITIONS)
    _fill(instance)
    router = Router(instance.context, cast(Any, None), None, cast(Any, object()))
    asyncio.run(_stream(router, b"to=customer-0020000"))  # what is needed once, and the caches
    Path("/proc/self/clear_refs").write_text("5")  # peaks begin anew; see proc(5)
    before = _resident("VmRSS")
    lines = asyncio.run(_stream(router))
    print(lines, before, _resident("VmHWM"))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
