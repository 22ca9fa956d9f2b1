"""What a read by proxy costs when one thing is other than in the base row, and how that grows.

The base: 64 connections, one backend, 100,000 keys that are asked for alike, values of 100 bytes,
6 partitions. The rows say in `more` what each of them had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bench import asking, load
from bench.load import Asked, Served
from bench.plan import Plan
from bench.records import Table, customers
from bench.report import Row
from bench.rows.reads import Subject, served_row
from bench.stack import Server, Stack

CONNECTIONS = 64
BACKENDS = (2, 4)
BASE = Table("base", 0, value_size=100)


@dataclass(frozen=True, slots=True)
class Case:
    """A row: what is read, how, and from how many backends."""

    name: str
    table: Table
    backends: int = 1
    zipf: bool = False
    filled: bool = False  # of the backend that the other rows read from

    def more(self) -> dict[str, float]:
        return {
            "backends": self.backends,
            "keys": self.table.count,
            "partitions": self.table.partitions,
            "value_bytes": len(self.table.value(0)),
            "zipf": int(self.zipf),
        }


def cases(plan: Plan) -> list[Case]:
    """The base, and what differs from it in one thing: large values come from fewer keys, too."""
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
    return plan.rounds * len(cases(plan))


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    wanted = cases(plan)
    tables = list(dict.fromkeys(case.table for case in wanted if not case.filled))
    stack.fill(tables)
    filled = stack.filled_backend()
    of_filled = Subject("proxy", (stack.launch_proxy(filled), filled), ours=True)
    # nothing shares a backend with what is measured: views cost a little even when nobody asks
    subjects = {
        (table, count): _launch(stack, count, table)
        for table, count in {(each.table, each.backends) for each in wanted if not each.filled}
    }
    asked = {
        case: (of_filled if case.filled else subjects[case.table, case.backends], _asked(case))
        for case in wanted
    }
    found: dict[Case, list[Served]] = {case: [] for case in wanted}
    for subject, reads in asked.values():
        load.run(subject.servers[0].port, reads, 16, plan.seconds)
    for _ in range(plan.rounds):
        for case, (subject, reads) in asked.items():
            found[case].append(subject.measure(reads, CONNECTIONS, plan.seconds))
            step()
    stack.stop(*(s for each in subjects.values() for s in each.servers), of_filled.servers[0])
    return [
        served_row(case.name, CONNECTIONS, rounds, more=case.more())
        for case, rounds in found.items()
    ]


def _asked(case: Case) -> Asked:
    return Asked(case.table.path, case.table.count, zipf=case.zipf)


def _launch(stack: Stack, count: int, table: Table) -> Subject:
    """A proxy and so many backends of this table, which have shared its partitions."""
    group = stack.new_name("factors")
    backends = [
        stack.launch_backend(stack.new_name("backend"), group, [table]) for _ in range(count)
    ]
    stack.wait_ready(*backends)
    stack.wait(lambda: _is_shared(backends[0]), f"{count} backends to share the partitions")
    for backend in backends:
        stack.wait_idle(backend)
    proxy = stack.launch_proxy(backends[0])
    return Subject("proxy", (proxy, *backends), ours=True)


def _is_shared(backend: Server) -> bool:
    answer = asking.get(backend.port, "/processors")
    return answer is not None and answer.status == 200 and shared(answer.json())


def shared(processors: dict[str, Any]) -> bool:
    """Whether each backend is the active of as many partitions of each view as any other, or of
    one more or less."""
    held = [
        [len(each["topicPartitions"].get(view, ())) for each in processors["processors"]]
        for view in processors["views"]
    ]
    return all(max(counts) - min(counts) <= 1 for counts in held)
