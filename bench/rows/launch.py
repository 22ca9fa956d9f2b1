"""The launch of two new instances: from their start until all keys are readable."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

from bench import http_client, records
from bench.plan import Plan
from bench.report import Row, Target, compare
from bench.stack import Server, Stack, run_references
from bench.subject import Subject

LAUNCH_TARGET = Target(2.5, of_ratio=True)


def steps(plan: Plan) -> int:
    return plan.rounds * 2


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    ours, bare = Subject[float]("launch"), Subject[float]("launch-consume", reference=True)
    for _ in range(plan.rounds):
        ours.measure(lambda: launch(stack, plan.sample, ours.note))
        yield _rows(ours, bare)
        bare.measure(lambda: _consume(stack))
        yield _rows(ours, bare)


def _rows(ours: Subject[float], bare: Subject[float]) -> list[Row]:
    beside = compare(
        "launch of two, to all keys readable", "s", ours.of(float),
        "two bare consumers, to the end of the topic", bare.of(float),
        LAUNCH_TARGET,
    )  # fmt: skip
    return [ours.row(more={"seconds": float}, beside=beside), bare.row(more={"seconds": float})]


def _consume(stack: Stack) -> float:
    partitions = [str(partition) for partition in range(records.PARTITIONS)]
    began = time.monotonic()
    run_references([("consume", stack.servers, records.TOPIC, *partitions[i::2]) for i in range(2)])
    return time.monotonic() - began


def launch(stack: Stack, sample: int, note: Callable[[str], None]) -> float:
    """Seconds until both are ready. `note` gets a description if a key is not readable then."""
    group = stack.new_name("group")
    began = time.monotonic()
    both = [stack.launch_backend(stack.new_name("launch"), group) for _ in range(2)]
    stack.wait_ready(*both)
    seconds = time.monotonic() - began
    numbers = random.sample(range(stack.count), min(sample, stack.count))
    for number, backend in enumerate(both):
        check(backend, numbers[number::2], note)
    stack.stop(*both)
    return seconds


def check(server: Server, numbers: Sequence[int], note: Callable[[str], None]) -> None:
    """Reads these records; `note` gets a description of wrong answers."""
    if bad := http_client.wrong_answers(server.port, numbers):
        note(
            f"of {len(numbers):,} reads of {server.name} after it was ready, {len(bad):,} were "
            f"answered wrongly, the first: {bad[0]}"
        )
