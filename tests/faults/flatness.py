"""Whether memory, file handles and threads of processes stay as they are: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Usage:
    """Of all processes of a session at one moment."""

    memory_mb: float
    handles: float
    threads: float


# Of handles the least: connections come with a fault and are kept for a while after it, so their
# median says how many faults there were; one that is never closed is in the least, too.
_OF_A_QUARTER = {"memory_mb": median, "handles": min, "threads": median}

# what may be added: a share, and so much beside it, for caches that are still filling
_ALLOWED = {"memory_mb": (0.1, 10.0), "handles": (0.1, 5.0), "threads": (0.0, 2.0)}


def quarter(samples: Sequence[Usage], number: int) -> Usage:
    """A quarter of the time, 0 to 3: medians, and the least of handles."""
    part = samples[len(samples) * number // 4 : len(samples) * (number + 1) // 4] or samples
    return Usage(*(of(getattr(each, name) for each in part) for name, of in _OF_A_QUARTER.items()))


def growth(samples: Sequence[Usage]) -> list[str]:
    """What has grown from the second quarter to the last one, in words; the first is warming up."""
    before, after = quarter(samples, 1), quarter(samples, 3)
    said = []
    for name, (share, more) in _ALLOWED.items():
        old, new = getattr(before, name), getattr(after, name)
        if new > old * (1 + share) + more:
            said.append(f"{name} grew from {old:,.0f} to {new:,.0f}")
    return said
