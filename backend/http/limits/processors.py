"""How many processors this instance may use."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup/cpu.max")

_MOST_REDUCTIONS = 8
"""Of one instance. Each keeps groups or rows of all owners: some 20 MB."""


def processors(quota: Path = _CGROUP) -> int:
    """Those that the process may run on, or as many as its container has (cgroup v2); at least 1.

    `quota`: the file with the quota and the period (µs), or `max` and the period.
    """
    found = len(os.sched_getaffinity(0))
    try:
        allowed, period = quota.read_text().split()
        return max(1, min(found, int(allowed) // int(period)))
    except (OSError, ValueError):  # no quota
        return found


def most_reductions(count: int | None = None) -> int:
    """How many counts, rankings and aggregates run at once: two for each processor, without one
    processor for reads of keys. There are at least three, so that one client cannot use all of
    them. `count`: the number of processors; None: those of this machine."""
    count = processors() if count is None else count
    return max(3, min(2 * (count - 1), _MOST_REDUCTIONS))
