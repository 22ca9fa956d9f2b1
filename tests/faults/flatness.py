"""Detects growth of memory, file handles and threads of processes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of all processes of a session at one time."""

    memory_mb: float
    handles: float
    threads: float


# Handles: the minimum, because connections are opened by a fault and kept for a while, so their
# median depends on the number of faults. The minimum includes connections that are never closed.
_AGGREGATES = {"memory_mb": median, "handles": min, "threads": median}

# allowed growth: a share, plus an absolute amount for caches that are still filling
_ALLOWED = {"memory_mb": (0.1, 10.0), "handles": (0.1, 5.0), "threads": (0.0, 2.0)}


def quarter(samples: Sequence[Usage], number: int) -> Usage:
    """The usage in a quarter of the time (0 to 3): medians, and the minimum of handles."""
    part = samples[len(samples) * number // 4 : len(samples) * (number + 1) // 4] or samples
    return Usage(*(of(getattr(each, name) for each in part) for name, of in _AGGREGATES.items()))


def growth(samples: Sequence[Usage]) -> list[str]:
    """Describes growth from the second quarter to the last one; the first is a warm-up."""
    before, after = quarter(samples, 1), quarter(samples, 3)
    found = []
    for name, (share, more) in _ALLOWED.items():
        old, new = getattr(before, name), getattr(after, name)
        if new > old * (1 + share) + more:
            found.append(f"{name} grew from {old:,.0f} to {new:,.0f}")
    return found
