"""Flights as the raw topic has them."""

from __future__ import annotations

import json
from typing import Any

FLIGHT: dict[str, Any] = {
    "year": 2013, "month": 1, "day": 1, "dep_time": 517, "sched_dep_time": 515, "dep_delay": 2,
    "arr_time": 830, "sched_arr_time": 819, "arr_delay": 11, "carrier": "UA", "flight": 1545,
    "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": 227, "distance": 1400,
    "hour": 5, "minute": 15, "time_hour": "2013-01-01T10:00:00Z",
}  # fmt: skip


def flight(**changes: Any) -> tuple[bytes | None, bytes]:
    """Key and value of a flight; the key is the tail number."""
    row = {**FLIGHT, **changes}
    key = row["tailnum"]
    return None if key is None else str(key).encode(), json.dumps(row).encode()


def departure(**changes: Any) -> dict[str, Any]:
    """What the view says of FLIGHT."""
    at = {"flight": "UA1545", "origin": "EWR", "dest": "IAH"}
    return {**at, "time": "2013-01-01T10:17:00Z", "delay": 2, **changes}
