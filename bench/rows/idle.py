"""What two instances and nginx use without reads and records, beside two instances of a Kafka
Streams application that have the same topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from bench.plan import FULL, Plan
from bench.proc import cpu_seconds, pss_mb
from bench.report import Comparison, Row, Target
from bench.rows.factors import launch_backends
from bench.rows.streams import launch_applications
from bench.stack import Server, Stack

_SECONDS, _SHORT = 20, 2  # of a round
_SETTLE = 60  # s before the first round, in which the JVM still compiles
CPU_TARGET = Target(1.0)  # % of a core, of both instances and nginx
MEMORY_TARGET = Target(80.0)  # MB of an instance


def steps(plan: Plan) -> int:
    return 2 * plan.rounds


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backends = launch_backends(stack, 2, stack.table)
    proxy = stack.launch_proxy(backends[0])
    _, applications = launch_applications(stack, plan.sample)
    for server in (proxy, *applications):
        stack.wait_idle(server)
    seconds, settle = (_SECONDS, _SETTLE) if plan.records >= FULL.records else (_SHORT, _SHORT)
    time.sleep(settle)
    servers = {"idle": [proxy, *backends], "idle-streams": applications}
    used: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(plan.rounds):
        for name, of_row in servers.items():
            used[name].append(_percent_of_core(of_row, seconds))
            step()
    memory = [pss_mb(backend.pid) for backend in backends]
    of_streams = [pss_mb(application.pid) for application in applications]
    stack.stop(proxy, *backends, *applications)
    beside = [
        Comparison.of(
            "CPU", "% of a core", used["idle"],
            "Kafka Streams", used["idle-streams"], CPU_TARGET,
        ),
        Comparison.of(
            "memory of an instance", "MB", memory, "Kafka Streams", of_streams, MEMORY_TARGET
        ),
    ]  # fmt: skip
    return [
        Row("idle", rss_mb=median(memory), more={"percent": median(used["idle"])}, beside=beside),
        Row(
            "idle-streams",
            rss_mb=median(of_streams),
            more={"percent": median(used["idle-streams"])},
        ),
    ]


def _percent_of_core(servers: list[Server], seconds: int) -> float:
    leaders = [server.pid for server in servers]
    before = cpu_seconds(*leaders)
    time.sleep(seconds)
    return (cpu_seconds(*leaders) - before) / seconds * 100
