"""Parses times and durations. All results are in ms."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_MAX_LENGTH = 64
MIN_TIME, MAX_TIME = -(1 << 63), (1 << 63) - 1
"""The smallest and the greatest time (ms). Some programs use them for "no bound"."""

_INTEGER = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:Z|[+-][0-9]{2}:?[0-9]{2})?", re.ASCII)
_LOST_PLUS = re.compile(r" [0-9]{2}:?[0-9]{2}$", re.ASCII)
_DURATION = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>ms|s|m|h|d)", re.ASCII)
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str) -> int:
    """Parse decimal epoch ms, or ISO 8601 with a time zone (`2013-01-01T10:17:00Z`), to epoch ms.

    Raises ValueError if the text is invalid or the time is not in MIN_TIME..MAX_TIME.
    """
    # the parameters `from` and `to` may also be keys, which may be long
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"a time has at most {_MAX_LENGTH} characters")
    if _INTEGER.fullmatch(text):
        number = int(text)
        if not MIN_TIME <= number <= MAX_TIME:
            raise ValueError(f"{text} is not a valid time: it does not fit in 64 bits")
        return number
    # a zone after a date would be taken for a time of day
    if only_date := _DATE.fullmatch(text):
        raise ValueError(f"{text!r} is only a date: use {only_date[1]}T00:00:00Z")
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        hint = ". In a URL, write + as %2B" if _LOST_PLUS.search(text) else ""
        raise ValueError(
            f"{text[:40]!r} is not a valid time: use 2013-01-01T10:17:00Z or ms since 1970{hint}"
        ) from None
    if time.tzinfo is None:
        raise ValueError(
            f"{text!r} has no time zone: append Z or an offset such as +01:00 (in a URL: %2B01:00)"
        )
    return (time - EPOCH) // _MS


def parse_duration(text: str) -> int:
    """Parse a duration such as `500ms`, `30s`, `5m`, `12h` or `7d` to ms. Raises ValueError."""
    parsed = _DURATION.fullmatch(text)
    if parsed is None:
        raise ValueError(
            f'"{text}" is not a valid duration: use for example "500ms", "30s", "5m", "12h" or "7d"'
        )
    return int(parsed["number"]) * _UNITS[parsed["unit"]]
