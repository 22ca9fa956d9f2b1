"""The cost of a key in a batch, compared with a bare HTTP server and with bare RocksDB."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from operator import itemgetter

from bench import http_client, records
from bench.load import Measurement, Workload
from bench.plan import Plan
from bench.report import Row, Target, compare
from bench.stack import Stack, run_reference
from bench.subject import Served, Subject
from local.errors import LocalError

KEYS = 100  # per request
PATH = f"/views/{records.VIEW}/batch"
CONNECTIONS = (1, 16)
RATE_TARGET = Target(60_000.0, at_least=True)  # keys/s of an instance
_ROCKSDICT = "bare rocksdict, lists of keys, and orjson"


def steps(plan: Plan) -> int:
    return plan.rounds * (2 * len(CONNECTIONS) + 1)


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    backend = stack.filled_backend()
    sample = _sample(backend.port, stack.count)
    workload = Workload(PATH, stack.count, batch=KEYS)
    ours = Served("batch", lambda: [backend])
    constant = Served("batch-constant", lambda: [stack.launch_constant(sample)], reference=True)
    bare = Subject[dict[str, float]]("rocksdict-many", reference=True)
    for subject in (ours, constant):
        subject.warm_up(workload, plan.seconds)
    for _ in range(plan.rounds):
        for connections in CONNECTIONS:
            for subject in (ours, constant):
                subject.load(workload, connections, plan.seconds)
                yield _rows(ours, constant, bare)
        asked = map(str, (stack.copy_of(backend), stack.count, plan.gets // KEYS, KEYS))
        bare.measure(partial(run_reference, "many", *asked))
        yield _rows(ours, constant, bare)


def _rows(ours: Served, constant: Served, bare: Subject[dict[str, float]]) -> list[Row]:
    rows = []
    for connections in CONNECTIONS:
        cpu, rate = ours.of(_cpu, connections), ours.of(_rate, connections)
        target = RATE_TARGET if connections == max(CONNECTIONS) else None
        of_constant = constant.of(_cpu, connections)
        beside = [
            *compare("CPU per key", "µs", cpu, "constant ASGI app, same keys", of_constant),
            *compare("CPU per key", "µs", cpu, _ROCKSDICT, bare.of(itemgetter("cpu_us"))),
            *compare("keys", "/s", rate, _ROCKSDICT, bare.of(itemgetter("keys_s")), target),
        ]
        rows += [ours.loaded_row(connections, beside), constant.loaded_row(connections)]
    return [*rows, bare.row(rps=itemgetter("keys_s"), cpu_us=itemgetter("cpu_us"))]


def _cpu(each: Measurement) -> float:
    return each.cpu_us / KEYS


def _rate(each: Measurement) -> float:
    return each.load.rps * KEYS


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
