"""What a key of a batch costs, beside the bare HTTP server and bare RocksDB asked for as many."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from statistics import median

from bench import asking, load, records
from bench.load import Served
from bench.plan import Plan
from bench.report import Comparison, Row, Target
from bench.rows.reads import served_row
from bench.stack import Stack, run_reference
from local.errors import LocalError

KEYS = 100  # a request
PATH = f"/views/{records.VIEW}/batch"
CONNECTIONS = (1, 16)
RATE_TARGET = Target(60_000.0, at_least=True)  # keys/s, an instance


def steps(plan: Plan) -> int:
    return plan.rounds * (2 * len(CONNECTIONS) + 1)


def measure(
    stack: Stack, plan: Plan, step: Callable[[], None]
) -> tuple[list[Row], list[Comparison]]:
    backend = stack.filled_backend()
    constant = stack.launch_constant(_sample(backend.port, stack.count))
    ours: dict[int, list[Served]] = {c: [] for c in CONNECTIONS}
    theirs: dict[int, list[Served]] = {c: [] for c in CONNECTIONS}
    bare: list[dict[str, float]] = []
    for server in (backend, constant):
        load.run(server.port, PATH, stack.count, 16, plan.seconds, batch=KEYS)
    for _ in range(plan.rounds):
        for connections in CONNECTIONS:
            for server, found in ((backend, ours), (constant, theirs)):
                found[connections].append(
                    load.measure(
                        (server.pid,), server.port, PATH, stack.count, connections, plan.seconds,
                        batch=KEYS,
                    )
                )  # fmt: skip
                step()
        copy = str(stack.copy_of(backend))
        batches = str(plan.gets // KEYS)
        bare.append(run_reference("many", copy, str(stack.count), batches, str(KEYS)))
        step()
    stack.stop(constant)
    rows, comparisons = [], []
    for connections in CONNECTIONS:
        rows.append(served_row("batch", connections, ours[connections]))
        rows.append(served_row("batch-constant", connections, theirs[connections]))
        for beside, cpu, rate in (
            (
                "bare ASGI app, constant answer of as many keys",
                [served.cpu_us / KEYS for served in theirs[connections]],
                [served.load.rps * KEYS for served in theirs[connections]],
            ),
            (
                "bare rocksdict, lists of keys, and orjson",
                [each["cpu_us"] for each in bare],
                [each["keys_s"] for each in bare],
            ),
        ):
            comparisons.append(
                Comparison.of(
                    f"CPU a key of a batch, {connections} conn.",
                    "µs",
                    [served.cpu_us / KEYS for served in ours[connections]],
                    beside,
                    cpu,
                )
            )
            comparisons.append(
                Comparison.of(
                    f"keys/s by batches of {KEYS}, {connections} conn.",
                    "/s",
                    [served.load.rps * KEYS for served in ours[connections]],
                    beside,
                    rate,
                    RATE_TARGET if connections == max(CONNECTIONS) else None,
                )
            )
    rows.append(
        Row(
            "rocksdict-many",
            rps=median(each["keys_s"] for each in bare),
            cpu_us=median(each["cpu_us"] for each in bare),
        )
    )
    comparisons.sort(key=lambda each: each.beside)
    return rows, comparisons


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
