"""How the cost of a read by proxy grows: each row varies one factor of the base row.

The base row has 64 connections, one backend, 100,000 keys that are read uniformly, values of 100
bytes, and 6 partitions. `more` of a row has its factors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from bench import http_client, records
from bench.load import Workload
from bench.plan import Plan
from bench.records import Table, customers
from bench.report import Row, Target, compare
from bench.rows.reads import launch_front, launch_static, sample_answer
from bench.stack import Server, Stack
from bench.subject import Served

CONNECTIONS = 64
BACKENDS = (2, 4)
BASE = Table("base", 0, value_size=100)
STATIC = "static-beside-2-backends"
STATIC_TARGET = Target(1.0, of_ratio=True)


@dataclass(frozen=True, slots=True)
class Case:
    """A row: the table, the distribution of the reads, and the number of backends."""

    name: str
    table: Table
    backends: int = 1
    zipf: bool = False
    filled: bool = False  # read from the backend that other groups of rows use

    def more(self) -> dict[str, float]:
        return {
            "backends": self.backends,
            "keys": self.table.count,
            "partitions": self.table.partitions,
            "value_bytes": len(self.table.value(0)),
            "zipf": int(self.zipf),
        }


def cases(plan: Plan) -> list[Case]:
    """The base row, and rows that vary one factor; the one with large values has fewer keys."""
    base = replace(BASE, count=plan.varied)
    large = Table("large", plan.varied // 10, value_size=10_000)
    tables = [
        ("values-10", replace(base, view="small", value_size=10)),
        ("values-10000", large),
        ("partitions-1", replace(base, view="one", partitions=1)),
        ("partitions-64", replace(base, view="many", partitions=64)),
    ]
    if plan.huge:
        tables.append((f"keys-{plan.huge}", replace(base, view="huge", count=plan.huge)))
    return [
        Case("proxy-base", base),
        Case("proxy-zipf", base, zipf=True),
        *(Case(f"proxy-backends-{n}", base, backends=n) for n in BACKENDS),
        *(Case(f"proxy-{name}", table) for name, table in tables),
        Case(f"proxy-keys-{plan.records}", customers(plan.records), filled=True),
    ]


def steps(plan: Plan) -> int:
    return plan.rounds * (len(cases(plan)) + 1)


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    wanted = cases(plan)
    stack.fill(list(dict.fromkeys(case.table for case in wanted if not case.filled)))
    stack.filled_backend()

    @cache
    def launch(table: Table, count: int, is_filled: bool) -> tuple[Server, ...]:
        """Each table has its own backends, because a view that is not read also costs a little."""
        filled = [stack.filled_backend()] if is_filled else []
        backends = filled or launch_backends(stack, count, table)
        return (stack.launch_proxy(backends[0]), *backends)

    subjects = {
        case: Served(case.name, partial(launch, case.table, case.backends, case.filled), proxy=True)
        for case in wanted
    }
    two = next(case for case in wanted if case.backends == 2)
    static = Served(
        STATIC, lambda: _launch_static(stack, two, subjects[two].server), reference=True
    )
    for case, subject in subjects.items():
        subject.warm_up(_workload(case), plan.seconds)
    static.warm_up(_workload(two), plan.seconds)
    for _ in range(plan.rounds):
        for case, subject in subjects.items():
            subject.load(_workload(case), CONNECTIONS, plan.seconds)
            yield _rows(subjects, static)
            if case == two:
                static.load(_workload(two), CONNECTIONS, plan.seconds)
                yield _rows(subjects, static)


def _rows(subjects: dict[Case, Served], static: Served) -> list[Row]:
    rows = []
    for case, subject in subjects.items():
        beside = []
        if case.backends == 2:
            ours, limit = subject.cpu(CONNECTIONS), static.cpu(CONNECTIONS)
            beside = compare("CPU", "µs", ours, "nginx ► static nginx", limit, STATIC_TARGET)
        rows.append(subject.loaded_row(CONNECTIONS, beside, case.more()))
    return [*rows, static.loaded_row(CONNECTIONS)]


def _launch_static(stack: Stack, case: Case, proxy: Server) -> tuple[Server, Server]:
    """nginx in front of a static nginx that has one recorded answer of the proxy."""
    path = f"{case.table.path}/{records.key(0).decode()}"
    return launch_front(stack, launch_static(stack, sample_answer(proxy.port, path=path)))


def _workload(case: Case) -> Workload:
    return Workload(case.table.path, case.table.count, zipf=case.zipf)


def launch_backends(
    stack: Stack, count: int, table: Table, settings: Mapping[str, str] = MappingProxyType({})
) -> list[Server]:
    """Starts `count` backends of this table; waits until each has its partitions, and is idle."""
    group = stack.new_name("group")
    backends = [
        stack.launch_backend(stack.new_name("backend"), group, [table], settings)
        for _ in range(count)
    ]
    stack.wait_ready(*backends)
    stack.wait(lambda: _is_balanced(backends[0]), f"{count} backends to have their partitions")
    for backend in backends:
        stack.wait_idle(backend)
    return backends


def _is_balanced(backend: Server) -> bool:
    answer = http_client.get(backend.port, "/processors")
    return answer is not None and answer.status == 200 and is_balanced(answer.json())


def is_balanced(processors: dict[str, Any]) -> bool:
    """Whether the numbers of active partitions of the backends differ by at most one, per view."""
    counts_by_view = [
        [len(each["topicPartitions"].get(view, ())) for each in processors["processors"]]
        for view in processors["views"]
    ]
    return all(max(counts) - min(counts) <= 1 for counts in counts_by_view)
