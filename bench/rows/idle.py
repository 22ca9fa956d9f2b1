"""The CPU time and memory of two instances and nginx without reads and records, compared with two
instances of a Kafka Streams application that have the same topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

from bench.plan import FULL, Plan
from bench.proc import cpu_seconds, pss_mb
from bench.report import Row, Target, compare
from bench.rows.factors import launch_backends
from bench.rows.streams import launch_applications
from bench.stack import Server, Stack
from bench.subject import Subject

_SECONDS, _SHORT = 20, 2  # of a round
_SETTLE = 60  # s before the first round, in which the JVM still compiles
CPU_TARGET = Target(1.0)  # % of a core, of both instances and nginx
MEMORY_TARGET = Target(80.0)  # MB of an instance


@dataclass(frozen=True, slots=True)
class Use:
    """CPU of all servers (% of a core), and the memory of an instance (MB)."""

    percent: float
    mb: float


def steps(plan: Plan) -> int:
    return 2 * plan.rounds


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    ours, theirs = Subject[Use]("idle"), Subject[Use]("idle-streams", reference=True)
    backends = launch_backends(stack, 2, stack.table)
    proxy = stack.launch_proxy(backends[0])
    launched = theirs.attempt(lambda: launch_applications(stack, plan.sample, theirs.note))
    applications = launched.applications if launched else []
    stack.wait_idle(proxy)
    for server in applications:
        theirs.attempt(partial(stack.wait_idle, server))
    seconds, settle = (_SECONDS, _SETTLE) if plan.records >= FULL.records else (_SHORT, _SHORT)
    time.sleep(settle)
    for _ in range(plan.rounds):
        ours.measure(lambda: _use(stack, [proxy, *backends], backends, seconds))
        yield _rows(ours, theirs)
        theirs.measure(lambda: _use(stack, applications, applications, seconds))
        yield _rows(ours, theirs)


def _use(stack: Stack, servers: list[Server], instances: list[Server], seconds: int) -> Use:
    leaders = [server.pid for server in servers]
    before = cpu_seconds(*leaders)
    time.sleep(seconds)
    cpu = cpu_seconds(*leaders) - before
    stack.check(*servers)
    return Use(cpu / seconds * 100, median(pss_mb(instance.pid) for instance in instances))


def _rows(ours: Subject[Use], theirs: Subject[Use]) -> list[Row]:
    def both(get: Callable[[Use], float]) -> tuple[list[float], str, list[float]]:
        return ours.of(get), "Kafka Streams", theirs.of(get)

    beside = [
        *compare("CPU", "% of a core", *both(_percent), CPU_TARGET),
        *compare("memory of an instance", "MB", *both(_mb), MEMORY_TARGET),
    ]
    more = {"percent": _percent}
    return [ours.row(rss_mb=_mb, more=more, beside=beside), theirs.row(rss_mb=_mb, more=more)]


def _percent(each: Use) -> float:
    return each.percent


def _mb(each: Use) -> float:
    return each.mb
