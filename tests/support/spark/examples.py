"""Flights and requests like those in the raw topics, and a parser of timed keys."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from model.kinds.layout import Layout

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
    """The view's value for FLIGHT."""
    at = {"flight": "UA1545", "origin": "EWR", "dest": "IAH"}
    return {**at, "time": "2013-01-01T10:17:00Z", "delay": 2, **changes}


def request(
    number: int, time: str, client: str = "10.0.0.1", **changes: Any
) -> tuple[bytes, bytes]:
    """Key and value of a line of the access log; `time` is of 2026-01-01, such as 10:00:00."""
    line = {
        "time": f"2026-01-01T{time}+00:00", "request_id": f"{number:032x}", "client": client,
        "method": "GET", "uri": "/words/lambda", "status": 200, "bytes": 100, **changes,
    }  # fmt: skip
    return client.encode(), json.dumps(line).encode()


def clock(ms: int) -> str:
    """The time of a day."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%S")


def timed(layout: Layout, record_key: bytes) -> tuple[str, ...]:
    """Parses a record key like backends: bare key, start, and the end of a session."""
    entry = layout.entry_key(layout.stored_key(record_key))
    assert layout.bare_key(record_key) == entry.key
    return (entry.key.decode(), clock(entry.start), *([clock(entry.end)] if entry.end else []))
