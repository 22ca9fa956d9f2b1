"""When Spark writes the results of a view."""

from __future__ import annotations

import re

REAL_TIME = "real-time"
_TIME = re.compile(r"([0-9]+) (millisecond|second|minute|hour)s?")
_UNITS_MS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000}


def milliseconds(trigger: str) -> int | None:
    """The least time between two micro-batches; None if the trigger has another form."""
    found = _TIME.fullmatch(trigger)
    return None if found is None else int(found[1]) * _UNITS_MS[found[2]]
