"""The launch of two new instances: from their start until all keys are readable."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median

from bench import http_client, records
from bench.plan import Plan
from bench.report import Comparison, Row, Target
from bench.stack import Stack, run_references
from local.errors import LocalError

LAUNCH_TARGET = Target(2.5, of_ratio=True)


def steps(plan: Plan) -> int:
    return plan.rounds * 2


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    ours: list[float] = []
    reference: list[float] = []
    partitions = [str(partition) for partition in range(records.PARTITIONS)]
    for _ in range(plan.rounds):
        ours.append(launch(stack, plan.sample))
        step()
        began = time.monotonic()
        run_references(
            [("consume", stack.servers, records.TOPIC, *partitions[i::2]) for i in range(2)]
        )
        reference.append(time.monotonic() - began)
        step()
    beside = Comparison.of(
        "launch of two, to all keys readable", "s", ours,
        "two bare consumers, to the end of the topic", reference,
        LAUNCH_TARGET,
    )  # fmt: skip
    return [
        Row("launch", more={"seconds": median(ours)}, beside=[beside]),
        Row("launch-consume", more={"seconds": median(reference)}),
    ]


def launch(stack: Stack, sample: int) -> float:
    """Seconds until both are ready; LocalError if a key is not readable on both at that time."""
    group = stack.new_name("group")
    began = time.monotonic()
    both = [stack.launch_backend(stack.new_name("launch"), group) for _ in range(2)]
    stack.wait_ready(*both)
    seconds = time.monotonic() - began
    numbers = random.sample(range(stack.count), min(sample, stack.count))
    for number, backend in enumerate(both):
        bad = http_client.wrong_answers(backend.port, numbers[number::2])
        if bad:
            raise LocalError(
                f"both instances report that they are ready, but {backend.name} gave {len(bad):,} "
                f"wrong answers to {len(numbers[number::2]):,} reads, the first: {bad[0]}"
            )
    stack.stop(*both)
    return seconds
