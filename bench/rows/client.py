"""The cost of the Python client, compared with its HTTP library; one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from bench import records
from bench.plan import Plan
from bench.report import Comparison, Row, Target
from bench.stack import Stack, run_reference

KEYS = 100  # per `get_many`
_SINGLE = ("client", "client-direct", "urllib3", "async-client", "aiohttp")
_MANY = "client-many"

CPU_TARGET = Target(1.5, of_ratio=True)
RATE_TARGET = Target(30_000.0, at_least=True)  # keys/s
DIRECT_TARGET = Target(1.0, of_ratio=True)

Summary = dict[str, float]


def steps(plan: Plan) -> int:
    return plan.rounds * (len(_SINGLE) + 1)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    proxy = stack.launch_proxy(backend)
    url, count = f"http://127.0.0.1:{proxy.port}", str(stack.count)
    reads = str(max(plan.gets // 200, 100))
    batches = str(max(plan.gets // 1000, 20))
    found: dict[str, list[Summary]] = {name: [] for name in (*_SINGLE, _MANY)}
    for _ in range(plan.rounds):
        for name in _SINGLE:
            asked = (name, url, records.PATH, count, reads, "1")
            found[name].append(run_reference("client", *asked))
            step()
        asked = ("client", url, records.PATH, count, batches, str(KEYS))
        found[_MANY].append(run_reference("client", *asked))
        step()
    stack.stop(proxy)
    return [_row(name, found[name], _comparisons(name, found)) for name in (*_SINGLE, _MANY)]


def _row(name: str, summaries: list[Summary], beside: list[Comparison]) -> Row:
    return Row(
        name,
        1,
        rps=median(each["rate"] for each in summaries),
        p50_ms=median(each["p50_ms"] for each in summaries),
        cpu_us=median(each["cpu_us"] for each in summaries),
        beside=beside,
    )


def _comparisons(name: str, found: dict[str, list[Summary]]) -> list[Comparison]:
    def all_of(client: str, quantity: str) -> list[float]:
        return [each[quantity] for each in found[client]]

    def compare_cpu(library: str) -> Comparison:
        cpu = all_of(name, "cpu_us")
        return Comparison.of(
            "the client's CPU", "µs", cpu, library, all_of(library, "cpu_us"), CPU_TARGET
        )

    if name == "client":
        return [compare_cpu("urllib3")]
    if name == "async-client":
        return [compare_cpu("aiohttp")]
    if name == "client-direct":
        by_proxy = all_of("client", "p50_ms")
        return [
            Comparison.of("p50", "ms", all_of(name, "p50_ms"), "by proxy", by_proxy, DIRECT_TARGET)
        ]
    if name == _MANY:
        rate = all_of(name, "rate")
        return [
            Comparison.of("keys", "/s", rate, "one by one", all_of("client", "rate"), RATE_TARGET)
        ]
    return []
