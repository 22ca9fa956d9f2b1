"""The cost of reads at an instance that has half of the keys, and forwards the others.

Two backends without standbys share the partitions, and one of them is asked directly. It sends the
reads for the other one together; beside it, the same reads with an id for the logs, which it
forwards one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bench import load
from bench.load import Measurement, Workload
from bench.plan import Plan
from bench.records import Table
from bench.report import Comparison, Row, Target
from bench.rows.factors import launch_backends
from bench.rows.reads import Subject, cpu_of, latency_comparisons, measured_row
from bench.stack import Stack

_NAMES = ("forwarded", "forwarded-one-by-one")
P99_TARGETS = {256: Target(50.0)}  # ms


def steps(plan: Plan) -> int:
    return plan.rounds * len(_NAMES) * len(plan.connections)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    table = Table("forwarded", plan.varied, value_size=100)
    stack.fill([table])
    backends = launch_backends(stack, 2, table, {"QUERYABLE_STANDBY_REPLICAS": "0"})
    subject = Subject("forwarded", tuple(backends))
    together = Workload(table.path, table.count)
    workloads = dict(zip(_NAMES, (together, replace(together, traced=True)), strict=True))
    for reads in workloads.values():  # warms up caches and interpreters
        load.run(backends[0].port, reads, 16, plan.seconds)
    found: dict[tuple[str, int], list[Measurement]] = {
        (name, c): [] for name in _NAMES for c in plan.connections
    }
    for _ in range(plan.rounds):
        for connections in plan.connections:
            for name, reads in workloads.items():
                found[name, connections].append(subject.measure(reads, connections, plan.seconds))
                step()
    stack.stop(*backends)
    return [
        measured_row(name, c, found[name, c], _comparisons(found, c) if name == _NAMES[0] else [])
        for c in plan.connections
        for name in _NAMES
    ]


def _comparisons(
    found: dict[tuple[str, int], list[Measurement]], connections: int
) -> list[Comparison]:
    ours, singly = (found[name, connections] for name in _NAMES)
    return [
        *latency_comparisons(ours, singly, connections, P99_TARGETS),
        Comparison.of("CPU", "µs", cpu_of(ours), "one by one", cpu_of(singly)),
    ]
