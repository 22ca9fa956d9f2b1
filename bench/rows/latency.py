"""The latency of point reads during ingest, compared with the same reads while idle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from bench import http_client, load, records
from bench.load import LoadResult, Workload
from bench.plan import Plan
from bench.report import Comparison, Row, Target, compare
from bench.stack import Server, Stack
from bench.subject import Subject

# 16 readers that wait 4 ms on average between two reads: cores stay free, so that the latency shows
# how reads and ingest delay each other, not how long they wait for a core
_CONNECTIONS = 16
_THINK_MS = 4


@dataclass(frozen=True, slots=True)
class Reads:
    """A load, and the records per second that arrived meanwhile."""

    load: LoadResult
    ingested_per_s: float


def steps(plan: Plan) -> int:
    return plan.rounds * 2


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    backend = stack.filled_backend()
    workload = Workload(records.PATH, stack.count, think_ms=_THINK_MS)
    idle, busy = Subject[Reads]("reads-idle"), Subject[Reads]("reads-while-ingesting")

    def reads(subject: Subject[Reads]) -> Reads:
        began, before = time.monotonic(), _applied(backend)
        found = load.run(backend.port, workload, _CONNECTIONS, 3 * plan.seconds, subject.note)
        rate = (_applied(backend) - before) / (time.monotonic() - began)
        return Reads(found, rate)

    idle.attempt(lambda: reads(idle))
    for _ in range(plan.rounds):
        idle.measure(lambda: reads(idle), _CONNECTIONS)
        yield _rows(idle, busy)
        feeder = stack.launch_feeder(plan.rate)
        before = _applied(backend)
        stack.wait(lambda seen=before: _applied(backend) > seen, "records to arrive")
        busy.measure(lambda: reads(busy), _CONNECTIONS)
        stack.stop(feeder)
        stack.wait_idle(backend)
        yield _rows(idle, busy)


def _rows(idle: Subject[Reads], busy: Subject[Reads]) -> list[Row]:
    beside = []
    for quantile, get, target in _QUANTILES:
        of_busy, of_idle = busy.of(get, _CONNECTIONS), idle.of(get, _CONNECTIONS)
        if of_busy:
            rate = median(busy.of(_rate, _CONNECTIONS))
            what = f"{quantile} while ingesting {rate:,.0f} records/s"
            beside += compare(what, "ms", of_busy, "the same reads, idle", of_idle, target)
    return [_row(idle, []), _row(busy, beside)]


def _rate(each: Reads) -> float:
    return each.ingested_per_s


_QUANTILES: tuple[tuple[str, Callable[[Reads], float], Target | None], ...] = (
    ("p50", lambda each: each.load.p50_ms, None),
    ("p99", lambda each: each.load.p99_ms, Target(2.0, of_ratio=True)),
)


def _row(subject: Subject[Reads], beside: list[Comparison]) -> Row:
    return subject.row(
        _CONNECTIONS,
        rps=lambda each: each.load.rps,
        p50_ms=lambda each: each.load.p50_ms,
        p99_ms=lambda each: each.load.p99_ms,
        p99_9_ms=lambda each: each.load.p99_9_ms,
        more={"ingested_per_s": _rate},
        beside=beside,
    )


def _applied(backend: Server) -> int:
    """The sum of the positions; 0 if the backend does not answer."""
    answer = http_client.get(backend.port, "/instance")
    if answer is None or answer.status != 200:
        return 0
    return sum(each.get("position", 0) for each in answer.json()["partitions"])
