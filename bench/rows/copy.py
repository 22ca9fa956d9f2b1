"""How long a new instance takes to copy all store partitions from another one.

For comparison, a bare consumer reads the same records: a replay of the topic takes at least as
long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

from bench import records
from bench.plan import Plan
from bench.report import Row, Target, compare
from bench.stack import Server, Stack, run_reference
from bench.subject import Subject

SECONDS_TARGET = Target(2.0)
_COPYING: dict[str, Any] = {
    "settings": {"QUERYABLE_STANDBY_REPLICAS": "1"},
    "constants": {"copy_threshold": 1},
}
_RECEIVED = re.compile(r"received a snapshot of (\d+) bytes from \S+ in ([0-9.]+) s")


def steps(plan: Plan) -> int:
    return 2 * plan.rounds


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    group = stack.new_name("group")
    source = stack.launch_backend(stack.new_name("source"), group, **_COPYING)
    stack.wait_ready(source)
    stack.wait_idle(source)
    copies = Subject[tuple[int, float]]("copy")
    bare = Subject[dict[str, float]]("copy-consume", reference=True)
    partitions = [str(partition) for partition in range(records.PARTITIONS)]
    for _ in range(plan.rounds):
        copies.measure(lambda: _copy(stack, group, source))
        yield _rows(copies, bare)
        bare.measure(partial(run_reference, "consume", stack.servers, records.TOPIC, *partitions))
        yield _rows(copies, bare)


def _rows(copies: Subject[tuple[int, float]], bare: Subject[dict[str, float]]) -> list[Row]:
    beside = compare(
        "copies of all partitions", "s", copies.of(itemgetter(1)),
        "a bare confluent-kafka consumer", bare.of(itemgetter("seconds")), SECONDS_TARGET,
    )  # fmt: skip
    return [
        copies.row(
            more={"seconds": itemgetter(1), "mb": lambda each: each[0] / 1e6}, beside=beside
        ),
        bare.row(more={"seconds": itemgetter("seconds")}),
    ]


def _copy(stack: Stack, group: str, source: Server) -> tuple[int, float]:
    """The bytes and the seconds of all copies that a new instance fetches."""
    copier = stack.launch_backend(stack.new_name("copy"), group, **_COPYING)
    stack.wait(
        lambda: len(received(stack.log_of(copier))) == records.PARTITIONS,
        "all store partitions to be copied",
    )
    stack.wait_ready(source, copier)
    found = received(stack.log_of(copier))
    stack.stop(copier)
    stack.wait_ready(source)
    return sum(size for size, _ in found), sum(seconds for _, seconds in found)


def received(log: str) -> list[tuple[int, float]]:
    """Bytes and seconds of each copy in the log of an instance."""
    return [(int(size), float(seconds)) for size, seconds in _RECEIVED.findall(log)]
