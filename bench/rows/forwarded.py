"""The cost of reads at an instance that has half of the keys, and forwards the others.

Two backends without standbys share the partitions, and one of them is asked directly. It sends the
reads for the other backend together. For comparison, the same reads have an id for the logs, and it
forwards them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench.load import Workload
from bench.plan import Plan
from bench.records import Table
from bench.report import Row, Target, compare
from bench.rows.factors import launch_backends
from bench.rows.reads import latency_comparisons
from bench.stack import Stack
from bench.subject import Served

_NAMES = ("forwarded", "forwarded-one-by-one")
P99_TARGETS = {256: Target(50.0)}  # ms


def steps(plan: Plan) -> int:
    return plan.rounds * len(_NAMES) * len(plan.connections)


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    table = Table("forwarded", plan.varied, value_size=100)
    stack.fill([table])
    backends = launch_backends(stack, 2, table, {"QUERYABLE_STANDBY_REPLICAS": "0"})
    together, singly = (Served(name, lambda: backends) for name in _NAMES)
    reads = Workload(table.path, table.count)
    workloads = {together: reads, singly: replace(reads, traced=True)}
    for subject, workload in workloads.items():
        subject.warm_up(workload, plan.seconds)
    for _ in range(plan.rounds):
        for connections in plan.connections:
            for subject, workload in workloads.items():
                subject.load(workload, connections, plan.seconds)
                yield [row for c in plan.connections for row in _rows(together, singly, c)]


def _rows(together: Served, singly: Served, connections: int) -> list[Row]:
    cpu, cpu_singly = together.cpu(connections), singly.cpu(connections)
    beside = [
        *latency_comparisons(together, singly, connections, P99_TARGETS),
        *compare("CPU", "µs", cpu, "one by one", cpu_singly),
    ]
    return [together.loaded_row(connections, beside), singly.loaded_row(connections)]
