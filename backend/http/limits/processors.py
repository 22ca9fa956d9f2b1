"""How much of this instance's processors clients may use."""

from __future__ import annotations

from model.machine.limits import processors

_MAX_REDUCTIONS = 8
"""The maximum for one instance. Each reduction keeps groups or rows of all owners: about 20 MB."""


def max_reductions(count: int | None = None) -> int:
    """How many counts, rankings and aggregates may run at once: two for each processor, but one
    processor is left for reads of keys. The result is at least three, so that one client cannot use
    all of them. `count`: the number of processors; None: those of this machine."""
    count = processors() if count is None else count
    return max(3, min(2 * (count - 1), _MAX_REDUCTIONS))
