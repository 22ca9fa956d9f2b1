"""The cost of the Python client, compared with its HTTP library; one request at a time.

The libraries, too, send requests to our servers: a wrong answer to them counts as ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter

from bench import records
from bench.plan import Plan
from bench.report import Comparison, Row, Target, compare
from bench.stack import Stack, run_reference
from bench.subject import Subject

KEYS = 100  # per `get_many`
_SINGLE = ("client", "client-direct", "urllib3", "async-client", "aiohttp")
_MANY = "client-many"

CPU_TARGET = Target(1.5, of_ratio=True)
RATE_TARGET = Target(30_000.0, at_least=True)  # keys/s
DIRECT_TARGET = Target(1.0, of_ratio=True)

Clients = dict[str, Subject[dict[str, float]]]


def steps(plan: Plan) -> int:
    return plan.rounds * (len(_SINGLE) + 1)


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    proxy = stack.launch_proxy(stack.filled_backend())
    server = (f"http://127.0.0.1:{proxy.port}", records.PATH, str(stack.count))
    reads = str(max(plan.gets // 200, 100))
    batches = str(max(plan.gets // 1000, 20))
    asked = {name: (name, *server, reads, "1") for name in _SINGLE}
    asked[_MANY] = ("client", *server, batches, str(KEYS))
    clients: Clients = {name: Subject(name) for name in asked}
    for _ in range(plan.rounds):
        for name, arguments in asked.items():
            clients[name].measure(partial(run_reference, "client", *arguments), 1)
            yield [_row(clients, name) for name in clients]


def _row(clients: Clients, name: str) -> Row:
    return clients[name].row(
        1,
        rps=itemgetter("rate"),
        p50_ms=itemgetter("p50_ms"),
        cpu_us=itemgetter("cpu_us"),
        beside=_comparisons(clients, name),
    )


def _comparisons(clients: Clients, name: str) -> list[Comparison]:
    def all_of(client: str, quantity: str) -> list[float]:
        return clients[client].of(itemgetter(quantity), 1)

    def compare_cpu(library: str) -> list[Comparison]:
        cpu = all_of(name, "cpu_us")
        return compare(
            "the client's CPU", "µs", cpu, library, all_of(library, "cpu_us"), CPU_TARGET
        )

    if name == "client":
        return compare_cpu("urllib3")
    if name == "async-client":
        return compare_cpu("aiohttp")
    if name == "client-direct":
        by_proxy = all_of("client", "p50_ms")
        return compare("p50", "ms", all_of(name, "p50_ms"), "by proxy", by_proxy, DIRECT_TARGET)
    if name == _MANY:
        rate = all_of(name, "rate")
        return compare("keys", "/s", rate, "one by one", all_of("client", "rate"), RATE_TARGET)
    return []
