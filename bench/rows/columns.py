"""The columns of a whole view as an Arrow stream (`columns`), and read by the client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute
import urllib3

from bench.accounts import Accounts
from bench.load import Measurement
from bench.plan import Plan
from bench.proc import cpu_seconds
from bench.records import balance
from bench.report import Target
from bench.stack import Stack
from bench.subject import Baseline, Subject
from queryable import Client

_VIEW = "accounts"
_TARGET = f"/views/{_VIEW}/keys?select=city,balance"
_ARROW, _NDJSON = "application/vnd.apache.arrow.stream", "application/x-ndjson"


def columns(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Rate and CPU are those of a row. The CPU of `to-arrow` has the client's."""
    table = Accounts(_VIEW, plan.records, declared=True)
    stack.fill([table])
    backend = stack.restarted_backend(tables=[table])
    total = sum(map(balance, range(table.count)))

    def used(with_client: bool) -> float:
        return cpu_seconds(backend.pid) + (time.process_time() if with_client else 0)

    def measured(
        read: Callable[[], tuple[int, int, int]], with_client: bool = False
    ) -> Measurement:
        """`read`: the number of rows, the sum of their balances, and bytes."""
        before, began = used(with_client), time.monotonic()
        rows, found, size = read()
        seconds, cpu = time.monotonic() - began, used(with_client) - before
        values = {"rps": rows / seconds, "cpu_us": cpu / max(rows, 1) * 1e6, "seconds": seconds}
        if size:
            values["bytes"] = size / max(rows, 1)
        wrong = [] if (rows, found) == (table.count, total) else [f"{rows} rows, {found} in all"]
        return Measurement(values, wrong)

    def body(accept: str) -> bytes:
        answer = urllib3.request(
            "GET", backend.url + _TARGET, headers={"Accept": accept}, timeout=120
        )
        return answer.data

    def arrow() -> tuple[int, int, int]:
        whole = body(_ARROW)
        read = pa.ipc.open_stream(whole).read_all()
        return read.num_rows, _sum(read), len(whole)

    def lines() -> tuple[int, int, int]:
        whole = body(_NDJSON)
        values = [orjson.loads(line)["value"]["balance"] for line in whole.splitlines()]
        return len(values), sum(values), len(whole)

    def dataset() -> tuple[int, int, int]:
        with Client(backend.url, timeout=120) as client:
            read = client.dataset(_VIEW).to_table()
        return read.num_rows, _sum(read), 0

    def scan() -> tuple[int, int, int]:
        with Client(backend.url, timeout=120) as client:
            read = client.scan(_VIEW, stream=True).to_arrow()
        return read.num_rows, _sum(read), 0

    body(f"{_ARROW}, */*;q=0.1")  # the first request loads pyarrow
    more, less = (Target(bound, at_least, is_ratio=True)
                  for bound, at_least in ((0.7, True), (0.25, False)))  # fmt: skip
    yield [
        Subject(
            "arrow",
            lambda _: measured(arrow),
            baselines=[Baseline("rps", "ndjson-selected", more),
                       Baseline("bytes", "ndjson-selected", less),
                       Baseline("cpu_us", "ndjson-selected")],
        ),
        Subject("ndjson-selected", lambda _: measured(lines), reference=True),
        Subject(
            "to-arrow",
            lambda _: measured(dataset, with_client=True),
            baselines=[Baseline("rps", "scan-to-arrow", Target(5, True, is_ratio=True)),
                       Baseline("cpu_us", "scan-to-arrow")],
        ),
        Subject("scan-to-arrow", lambda _: measured(scan, with_client=True), reference=True),
    ]  # fmt: skip


def _sum(read: Any) -> int:
    return int(pa.compute.sum(read["balance"]).as_py() or 0)
