"""The expected content of the demo's views, computed from the raw data in plain Python.

This module shares no code with Spark or the backends, so that both sides cannot have the same
error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from pydoc_data.topics import topics as PYTHON_TOPICS

Row = Mapping[str, str]
"""A row of the flights in the CSV file."""

_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


def latest_departures(rows: Iterable[Row]) -> dict[str, object]:
    """Aircraft ► its latest departure; of several departures at the same time, that with the
    greatest flight."""
    latest: dict[str, tuple[datetime, str, str, str, int]] = {}
    for row in rows:
        tailnum = row["tailnum"]
        if tailnum == "NA" or row["dep_time"] == "NA":
            continue
        delay = int(row["dep_delay"])
        time = _time(row["time_hour"]) + timedelta(minutes=int(row["minute"]) + delay)
        name = row["carrier"] + row["flight"]
        departure = (time, name, row["origin"], row["dest"], delay)
        if tailnum not in latest or departure > latest[tailnum]:
            latest[tailnum] = departure
    return {
        tailnum: {
            "flight": name,
            "origin": origin,
            "dest": dest,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "delay": delay,
        }
        for tailnum, (time, name, origin, dest, delay) in latest.items()
    }


def last_rows(rows: Iterable[Row]) -> dict[str, object]:
    """Aircraft ► its last row in the file."""
    last = {row["tailnum"]: row for row in rows if row["tailnum"] != "NA"}
    return {tailnum: as_json(row) for tailnum, row in last.items()}


def as_json(row: Row) -> dict[str, object]:
    """A row with numbers as numbers, and None for missing values."""
    return {
        name: None if field == "NA" else field if name in _TEXTS else int(field)
        for name, field in row.items()
    }


def word_counts() -> dict[str, object]:
    """Word ► number of its occurrences in the texts."""
    counts: Counter[str] = Counter()
    for text in PYTHON_TOPICS.values():
        counts.update(re.findall(r"[a-z0-9_']+", text.lower()))
    return dict(counts)


@cache
def _time(iso: str) -> datetime:
    return datetime.fromisoformat(iso)
