"""The latency of point reads during ingest, compared with the same reads while idle."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from bench import http_client, load, records
from bench.load import LoadResult, Workload
from bench.plan import Plan
from bench.report import Comparison, Row, Target
from bench.stack import Server, Stack

# 16 readers that wait 4 ms on average between two reads: cores stay free, so that the latency shows
# how reads and ingest delay each other, not how long they wait for a core
_CONNECTIONS = 16
_THINK_MS = 4


def steps(plan: Plan) -> int:
    return plan.rounds * 2


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    idle: list[LoadResult] = []
    busy: list[LoadResult] = []
    rates: list[float] = []
    _reads(stack, backend, plan.seconds)
    for _ in range(plan.rounds):
        idle.append(_reads(stack, backend, plan.seconds))
        step()
        feeder = stack.launch_feeder(plan.rate)
        before = _applied(backend)
        stack.wait(lambda seen=before: _applied(backend) > seen, "records to arrive")
        began, before = time.monotonic(), _applied(backend)
        busy.append(_reads(stack, backend, plan.seconds))
        rates.append((_applied(backend) - before) / (time.monotonic() - began))
        stack.stop(feeder)
        stack.wait_idle(backend)
        step()
    beside = [
        Comparison.of(
            f"{quantile} while ingesting {median(rates):,.0f} records/s", "ms",
            [get(each) for each in busy], "the same reads, idle", [get(each) for each in idle],
            target,
        )
        for quantile, get, target in _QUANTILES
    ]  # fmt: skip
    return [
        _row("reads-idle", idle),
        replace(_row("reads-while-ingesting", busy, median(rates)), beside=beside),
    ]


_QUANTILES: tuple[tuple[str, Callable[[LoadResult], float], Target | None], ...] = (
    ("p50", lambda each: each.p50_ms, None),
    ("p99", lambda each: each.p99_ms, Target(2.0, of_ratio=True)),
)


def _row(name: str, loads: list[LoadResult], rate: float = 0.0) -> Row:
    return Row(
        name,
        _CONNECTIONS,
        rps=median(each.rps for each in loads),
        p50_ms=median(each.p50_ms for each in loads),
        p99_ms=median(each.p99_ms for each in loads),
        p99_9_ms=median(each.p99_9_ms for each in loads),
        more={"ingested_per_s": rate},
    )


def _reads(stack: Stack, backend: Server, seconds: int) -> LoadResult:
    workload = Workload(records.PATH, stack.count, think_ms=_THINK_MS)
    return load.run(backend.port, workload, _CONNECTIONS, 3 * seconds)


def _applied(backend: Server) -> int:
    """The sum of the positions; 0 if the backend does not answer."""
    answer = http_client.get(backend.port, "/instance")
    if answer is None or answer.status != 200:
        return 0
    return sum(each.get("position", 0) for each in answer.json()["partitions"])
