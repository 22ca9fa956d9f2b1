"""What a key of a batch costs, beside the bare HTTP server and bare RocksDB asked for as many."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from statistics import median

from bench import asking, load, records
from bench.load import Asked, Served
from bench.plan import Plan
from bench.report import Comparison, Row, Target
from bench.rows.reads import served_row
from bench.stack import Stack, run_reference
from local.errors import LocalError

KEYS = 100  # a request
PATH = f"/views/{records.VIEW}/batch"
CONNECTIONS = (1, 16)
RATE_TARGET = Target(60_000.0, at_least=True)  # keys/s, an instance
_BESIDE = "bare rocksdict, lists of keys, and orjson"


def steps(plan: Plan) -> int:
    return plan.rounds * (2 * len(CONNECTIONS) + 1)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    constant = stack.launch_constant(_sample(backend.port, stack.count))
    asked = Asked(PATH, stack.count, batch=KEYS)
    ours: dict[int, list[Served]] = {c: [] for c in CONNECTIONS}
    theirs: dict[int, list[Served]] = {c: [] for c in CONNECTIONS}
    bare: list[dict[str, float]] = []
    for server in (backend, constant):
        load.run(server.port, asked, 16, plan.seconds)
    for _ in range(plan.rounds):
        for connections in CONNECTIONS:
            for server, found in ((backend, ours), (constant, theirs)):
                found[connections].append(
                    load.measure((server.pid,), server.port, asked, connections, plan.seconds)
                )
                step()
        copy = str(stack.copy_of(backend))
        batches = str(plan.gets // KEYS)
        bare.append(run_reference("many", copy, str(stack.count), batches, str(KEYS)))
        step()
    stack.stop(constant)
    rows = []
    for connections in CONNECTIONS:
        beside = _beside(ours[connections], theirs[connections], bare, connections)
        rows.append(served_row("batch", connections, ours[connections], beside))
        rows.append(served_row("batch-constant", connections, theirs[connections]))
    rows.append(
        Row(
            "rocksdict-many",
            rps=median(each["keys_s"] for each in bare),
            cpu_us=median(each["cpu_us"] for each in bare),
        )
    )
    return rows


def _beside(
    ours: list[Served], constant: list[Served], bare: list[dict[str, float]], connections: int
) -> list[Comparison]:
    cpu = [each.cpu_us / KEYS for each in ours]
    rate = [each.load.rps * KEYS for each in ours]
    target = RATE_TARGET if connections == max(CONNECTIONS) else None
    constant_cpu = [each.cpu_us / KEYS for each in constant]
    return [
        Comparison.of("CPU a key", "µs", cpu, "constant ASGI app, as many keys", constant_cpu),
        Comparison.of("CPU a key", "µs", cpu, _BESIDE, [each["cpu_us"] for each in bare]),
        Comparison.of("keys", "/s", rate, _BESIDE, [each["keys_s"] for each in bare], target),
    ]


def _sample(port: int, count: int) -> asking.Answer:
    """A batch's answer, once all of it was found to be right; LocalError."""
    numbers = random.sample(range(count), KEYS)
    body = json.dumps({"keys": [records.key(number).decode() for number in numbers]}).encode()
    answer = asking.ask(port, PATH, "POST", body)
    expected = b",".join(
        b'{"key":"%b","status":200,"value":%b}' % (records.key(n), records.value(n))
        for n in numbers
    )
    if answer is None or answer.body != b'{"items":[%b]}' % expected:
        raise LocalError(f"the filled backend answers a batch wrongly: {answer}")
    return answer
