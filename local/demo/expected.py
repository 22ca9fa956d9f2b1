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


def aircraft(
    rows: Iterable[Row],
    planes: Iterable[Row],
    airlines: Iterable[Row],
    airports: Iterable[Row],
) -> dict[str, object]:
    """Aircraft ► its latest departure, joined with the other tables; without unknown fields."""
    planes_by_tailnum = {row["tailnum"]: row for row in planes}
    airline_names = {row["carrier"]: row["name"] for row in airlines}
    airport_names = {row["faa"]: row["name"] for row in airports}
    joined: dict[str, object] = {}
    for tailnum, departure in latest_departures(rows).items():
        assert isinstance(departure, dict)
        plane = planes_by_tailnum.get(tailnum, {})
        fields = {
            **{name: plane.get(name, "NA") for name in ("manufacturer", "model")},
            **{name: _number(plane.get(name, "NA")) for name in ("year", "seats")},
            "airline": airline_names.get(departure["flight"][:2], "NA"),
            "destination": airport_names.get(departure["dest"], "NA"),
            **departure,
        }
        joined[tailnum] = {name: value for name, value in fields.items() if value != "NA"}
    return joined


def _number(text: str) -> int | str:
    return text if text == "NA" else int(text)


def departures(rows: Iterable[Row]) -> dict[tuple[str, int], object]:
    """(Aircraft, departure time in ms since 1970) ► the departure; the last one if several."""
    by_time: dict[tuple[str, int], object] = {}
    for row in rows:
        if row["tailnum"] == "NA" or row["dep_time"] == "NA":
            continue
        delay = int(row["dep_delay"])
        departed_s = _time(row["time_hour"]).timestamp() + 60 * (int(row["minute"]) + delay)
        by_time[row["tailnum"], round(departed_s) * 1000] = {
            "flight": row["carrier"] + row["flight"],
            "origin": row["origin"],
            "dest": row["dest"],
            "delay": delay,
        }
    return by_time


def airports(rows: Iterable[Row]) -> dict[str, object]:
    """Destination ► number of flights; two rows of one flight count once."""
    flights = {
        (row["carrier"], row["flight"], row["origin"], row["time_hour"], row["minute"]): row["dest"]
        for row in rows
        if row["tailnum"] != "NA" and row["dep_time"] != "NA"
    }
    return {dest: {"count": count} for dest, count in Counter(flights.values()).items()}


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
