"""How much of this instance's processors clients may use."""

from __future__ import annotations

from model.machine.limits import processors

_MOST_REDUCTIONS = 8
"""Of one instance. Each keeps groups or rows of all owners: some 20 MB."""


def most_reductions(count: int | None = None) -> int:
    """How many counts, rankings and aggregates run at once: two for each processor, without one
    processor for reads of keys. There are at least three, so that one client cannot use all of
    them. `count`: the number of processors; None: those of this machine."""
    count = processors() if count is None else count
    return max(3, min(2 * (count - 1), _MOST_REDUCTIONS))
