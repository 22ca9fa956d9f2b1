"""What the Python client costs, beside the HTTP library that it uses; one question at a time."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from bench import records
from bench.plan import Plan
from bench.report import Comparison, Row, Target
from bench.stack import Stack, run_reference

KEYS = 100  # of a `get_many`
_SINGLY = ("client", "client-direct", "urllib3", "async-client", "aiohttp")
_MANY = "client-many"

CPU_TARGET = Target(1.5, of_ratio=True)
RATE_TARGET = Target(30_000.0, at_least=True)  # keys/s
DIRECT_TARGET = Target(1.0, of_ratio=True)

Said = dict[str, float]


def steps(plan: Plan) -> int:
    return plan.rounds * (len(_SINGLY) + 1)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    proxy = stack.launch_proxy(backend)
    url, count = f"http://127.0.0.1:{proxy.port}", str(stack.count)
    reads = str(max(plan.gets // 200, 100))
    batches = str(max(plan.gets // 1000, 20))
    found: dict[str, list[Said]] = {name: [] for name in (*_SINGLY, _MANY)}
    for _ in range(plan.rounds):
        for name in _SINGLY:
            asked = (name, url, records.PATH, count, reads, "1")
            found[name].append(run_reference("client", *asked))
            step()
        asked = ("client", url, records.PATH, count, batches, str(KEYS))
        found[_MANY].append(run_reference("client", *asked))
        step()
    stack.stop(proxy)
    return [_row(name, found[name], _beside(name, found)) for name in (*_SINGLY, _MANY)]


def _row(name: str, said: list[Said], beside: list[Comparison]) -> Row:
    return Row(
        name,
        1,
        rps=median(each["rate"] for each in said),
        p50_ms=median(each["p50_ms"] for each in said),
        cpu_us=median(each["cpu_us"] for each in said),
        beside=beside,
    )


def _beside(name: str, found: dict[str, list[Said]]) -> list[Comparison]:
    def all_of(who: str, what: str) -> list[float]:
        return [each[what] for each in found[who]]

    def cpu_beside(library: str) -> Comparison:
        cpu = all_of(name, "cpu_us")
        return Comparison.of(
            "the client's CPU", "µs", cpu, library, all_of(library, "cpu_us"), CPU_TARGET
        )

    if name == "client":
        return [cpu_beside("urllib3")]
    if name == "async-client":
        return [cpu_beside("aiohttp")]
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
