"""The cost of a key in a batch, compared with a bare HTTP server and with bare RocksDB."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from statistics import median

from bench import http_client, load, records
from bench.load import Measurement, Workload
from bench.plan import Plan
from bench.report import Comparison, Row, Target
from bench.rows.reads import measured_row
from bench.stack import Stack, run_reference
from local.errors import LocalError

KEYS = 100  # per request
PATH = f"/views/{records.VIEW}/batch"
CONNECTIONS = (1, 16)
RATE_TARGET = Target(60_000.0, at_least=True)  # keys/s of an instance
_ROCKSDICT = "bare rocksdict, lists of keys, and orjson"


def steps(plan: Plan) -> int:
    return plan.rounds * (2 * len(CONNECTIONS) + 1)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    constant = stack.launch_constant(_sample(backend.port, stack.count))
    workload = Workload(PATH, stack.count, batch=KEYS)
    ours: dict[int, list[Measurement]] = {c: [] for c in CONNECTIONS}
    reference: dict[int, list[Measurement]] = {c: [] for c in CONNECTIONS}
    bare: list[dict[str, float]] = []
    for server in (backend, constant):
        load.run(server.port, workload, 16, plan.seconds)
    for _ in range(plan.rounds):
        for connections in CONNECTIONS:
            for server, found in ((backend, ours), (constant, reference)):
                found[connections].append(
                    load.measure((server.pid,), server.port, workload, connections, plan.seconds)
                )
                step()
        copy = str(stack.copy_of(backend))
        batches = str(plan.gets // KEYS)
        bare.append(run_reference("many", copy, str(stack.count), batches, str(KEYS)))
        step()
    stack.stop(constant)
    rows = []
    for connections in CONNECTIONS:
        beside = _comparisons(ours[connections], reference[connections], bare, connections)
        rows.append(measured_row("batch", connections, ours[connections], beside))
        rows.append(measured_row("batch-constant", connections, reference[connections]))
    rows.append(
        Row(
            "rocksdict-many",
            rps=median(each["keys_s"] for each in bare),
            cpu_us=median(each["cpu_us"] for each in bare),
        )
    )
    return rows


def _comparisons(
    ours: list[Measurement],
    constant: list[Measurement],
    bare: list[dict[str, float]],
    connections: int,
) -> list[Comparison]:
    cpu = [each.cpu_us / KEYS for each in ours]
    rate = [each.load.rps * KEYS for each in ours]
    target = RATE_TARGET if connections == max(CONNECTIONS) else None
    constant_cpu = [each.cpu_us / KEYS for each in constant]
    return [
        Comparison.of("CPU per key", "µs", cpu, "constant ASGI app, same keys", constant_cpu),
        Comparison.of("CPU per key", "µs", cpu, _ROCKSDICT, [each["cpu_us"] for each in bare]),
        Comparison.of("keys", "/s", rate, _ROCKSDICT, [each["keys_s"] for each in bare], target),
    ]


def _sample(port: int, count: int) -> http_client.Answer:
    """The answer to a batch; LocalError if it is not exactly the expected one."""
    numbers = random.sample(range(count), KEYS)
    body = json.dumps({"keys": [records.key(number).decode() for number in numbers]}).encode()
    answer = http_client.request(port, PATH, "POST", body)
    expected = b",".join(
        b'{"key":"%b","status":200,"value":%b}' % (records.key(n), records.value(n))
        for n in numbers
    )
    if answer is None or answer.body != b'{"items":[%b]}' % expected:
        raise LocalError(f"the filled backend gave a wrong answer to a batch: {answer}")
    return answer
