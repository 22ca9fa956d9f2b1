"""The numbers that a pipeline reports about its work in each heartbeat (`stats`).

Counts begin when the pipeline starts. Rates and durations are those of the last micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Final, NamedTuple, TypeGuard


class Stat(NamedTuple):
    """`is_count`: whether it only grows until the pipeline is started again. `metric`: the suffix
    of its Prometheus metric, whose value is the number divided by `divisor`."""

    text: str
    metric: str
    is_count: bool = False
    divisor: int = 1


STATS: Final[Mapping[str, Stat]] = {
    "input_rate": Stat("Source records per second that arrived.", "input_records_per_second"),
    "processed_rate": Stat(
        "Source records per second that were processed.", "processed_records_per_second"
    ),
    "batch_ms": Stat("Duration of the last micro-batch.", "batch_duration_seconds", divisor=1000),
    "state_rows": Stat("Rows of state.", "state_rows"),
    "state_bytes": Stat("Memory that the state takes.", "state_bytes"),
    "watermark": Stat(
        "Records with an earlier time are late (epoch s).",
        "watermark_timestamp_seconds",
        divisor=1000,
    ),
    "input_rows": Stat("Source records read.", "input_rows", is_count=True),
    "late_rows": Stat("Dead letters that were late.", "late_rows", is_count=True),
    "dropped_rows": Stat(
        "Rows that were dropped because they were out of order.", "dropped_rows", is_count=True
    ),
    "dead_letters": Stat("Records written as dead letters.", "dead_letters", is_count=True),
    "restarts": Stat("Restarts after failures.", "restarts", is_count=True),
}


def known_stats(reported: object) -> dict[str, float]:
    """The numbers in a heartbeat's `stats` that this version knows; empty if it has none."""
    if not isinstance(reported, Mapping):
        return {}
    numbers = ((name, reported.get(name)) for name in STATS)
    return {name: number for name, number in numbers if _is_number(number)}


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) in (int, float) and isfinite(value)  # type: ignore[arg-type]
