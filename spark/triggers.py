"""When Spark writes the results of a view."""

from __future__ import annotations

import re

from model.times import parse_duration

REAL_TIME = "real-time"
_TIME = r"([0-9]+) (millisecond|second|minute|hour)s?"
_TIMES = re.compile(f"{_TIME}( {_TIME})*", re.ASCII)
_UNITS_MS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000}


def milliseconds(trigger: str) -> int | None:
    """The length of a time in Spark's form, such as ``"5 seconds"`` or ``"1 minute 30 seconds"``;
    None if it has another form."""
    if _TIMES.fullmatch(trigger) is None:
        return None
    return sum(int(number) * _UNITS_MS[unit] for number, unit in re.findall(_TIME, trigger))


def spark_time(text: str) -> str:
    """A time in Spark's form: unchanged, or converted from the form of views.toml (``"5s"``,
    ``"250ms"``). Raises ValueError."""
    if milliseconds(text) is not None:
        return text
    try:
        return f"{parse_duration(text)} milliseconds"
    except ValueError:
        raise ValueError(f'"{text}" is not a time, such as "5s" or "5 seconds"') from None
