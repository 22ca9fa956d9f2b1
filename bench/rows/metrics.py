"""Quantiles of the latency histograms in nginx and backends, beside those that wrk measures.

wrk also counts the time for which a request or an answer waits in a socket: until nginx or the
backend reads it, and until wrk does.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from bench import histograms, load, records
from bench.load import LoadResult, Workload
from bench.plan import Plan
from bench.report import Comparison, Row
from bench.stack import Server, Stack

CONNECTIONS = (16, 64)
_PATHS = {"proxy-histogram": "/proxy/metrics", "backend-histogram": "/metrics"}
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

Pair = tuple[LoadResult, list[int]]
"""A load, and what the histogram has counted of it."""


def steps(plan: Plan) -> int:
    return plan.rounds * len(_PATHS) * len(CONNECTIONS)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    servers = dict(zip(_PATHS, (stack.launch_proxy(backend), backend), strict=True))
    workload = Workload(records.PATH, stack.count)
    found: dict[tuple[str, int], list[Pair]] = {
        (name, connections): [] for connections in CONNECTIONS for name in _PATHS
    }
    for server in servers.values():  # warms up caches and interpreters
        load.run(server.port, workload, 16, plan.seconds)
    for _ in range(plan.rounds):
        for (name, connections), rounds in found.items():
            rounds.append(_measured(servers[name], _PATHS[name], workload, connections, plan))
            step()
    stack.stop(servers["proxy-histogram"])
    return [_row(name, connections, rounds) for (name, connections), rounds in found.items()]


def _measured(server: Server, path: str, workload: Workload, connections: int, plan: Plan) -> Pair:
    before = histograms.read_counts(server.port, path)
    done = load.run(server.port, workload, connections, plan.seconds)
    return done, histograms.increments(server.port, path, before, done.requests)


def _row(name: str, connections: int, rounds: list[Pair]) -> Row:
    of_wrk: dict[str, Callable[[LoadResult], float]] = {
        "p50": lambda each: each.p50_ms,
        "p90": lambda each: each.p90_ms,
        "p99": lambda each: each.p99_ms,
    }
    ours = {
        what: [histograms.quantile_ms(counts, share) for _, counts in rounds]
        for what, share in _SHARES.items()
    }
    return Row(
        name,
        connections,
        rps=median(each.rps for each, _ in rounds),
        p50_ms=median(ours["p50"]),
        p99_ms=median(ours["p99"]),
        beside=[
            Comparison.of(what, "ms", ours[what], "wrk", [of_wrk[what](each) for each, _ in rounds])
            for what in _SHARES
        ],
    )
