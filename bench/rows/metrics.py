"""Quantiles of the latency histograms in nginx and backends, next to the quantiles from wrk.

wrk also counts the time for which a request or an answer waits in a socket: until nginx or the
backend reads the request, and until wrk reads the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from bench import histograms, load, records
from bench.load import LoadResult, Workload
from bench.plan import Plan
from bench.report import Row, compare
from bench.stack import Stack
from bench.subject import Subject

CONNECTIONS = (16, 64)
_PATHS = {"proxy-histogram": "/proxy/metrics", "backend-histogram": "/metrics"}

Pair = tuple[LoadResult, list[int]]
"""A load, and the counts of the histogram for it."""

_OF_WRK: dict[str, Callable[[Pair], float]] = {
    "p50": lambda each: each[0].p50_ms,
    "p90": lambda each: each[0].p90_ms,
    "p99": lambda each: each[0].p99_ms,
}
_OF_HISTOGRAM: dict[str, Callable[[Pair], float]] = {
    "p50": lambda each: histograms.quantile_ms(each[1], 0.5),
    "p90": lambda each: histograms.quantile_ms(each[1], 0.9),
    "p99": lambda each: histograms.quantile_ms(each[1], 0.99),
}


def steps(plan: Plan) -> int:
    return plan.rounds * len(_PATHS) * len(CONNECTIONS)


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    backend = stack.filled_backend()
    workload = Workload(records.PATH, stack.count)
    servers = dict(zip(_PATHS, (stack.launch_proxy(backend), backend), strict=True))
    subjects = [Subject[Pair](name) for name in _PATHS]

    def load_of(subject: Subject[Pair], connections: int) -> Pair:
        port, path = servers[subject.name].port, _PATHS[subject.name]
        before = histograms.read_counts(port, path)
        note = partial(subject.note, connections=connections)
        done = load.run(port, workload, connections, plan.seconds, note)
        return done, histograms.increments(port, path, before, done.requests)

    for subject in subjects:  # warms up caches and interpreters
        subject.attempt(partial(load_of, subject, 16))
    for _ in range(plan.rounds):
        for connections in CONNECTIONS:
            for subject in subjects:
                subject.measure(partial(load_of, subject, connections), connections)
                yield [_row(each, c) for c in CONNECTIONS for each in subjects]


def _row(subject: Subject[Pair], connections: int) -> Row:
    beside = []
    for what, get in _OF_HISTOGRAM.items():
        of_wrk = subject.of(_OF_WRK[what], connections)
        beside += compare(what, "ms", subject.of(get, connections), "wrk", of_wrk)
    return subject.row(
        connections,
        rps=lambda each: each[0].rps,
        p50_ms=_OF_HISTOGRAM["p50"],
        p99_ms=_OF_HISTOGRAM["p99"],
        beside=beside,
    )
