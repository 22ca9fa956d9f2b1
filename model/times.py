"""Parsing of times and durations; all results are in ms."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_LONGEST = 64
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
"""The smallest and largest time; some programs write them for "no bound"."""

_WHOLE = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_DURATION = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>ms|s|m|h|d)", re.ASCII)
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str) -> int:
    """Epoch ms from decimal ms, or from ISO 8601 with a zone (`2013-01-01T10:17:00Z`).

    ValueError, also outside of LEAST..GREATEST.
    """
    if len(text) > _LONGEST:  # `from` and `to` of keys may be long
        raise ValueError(f"a time has at most {_LONGEST} characters")
    if _WHOLE.fullmatch(text):
        number = int(text)
        if not LEAST <= number <= GREATEST:
            raise ValueError(f"{text} is not a valid time: it does not fit in 64 bits")
        return number
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text[:40]!r} is not a valid time: use 2013-01-01T10:17:00Z or ms since 1970"
        ) from None
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: append Z or an offset such as %2B01:00")
    return (moment - EPOCH) // _MS


def parse_duration(text: str) -> int:
    """`500ms`, `30s`, `5m`, `12h` or `7d` in ms; ValueError."""
    parsed = _DURATION.fullmatch(text)
    if parsed is None:
        raise ValueError(
            f'"{text}" is not a valid duration: use for example "500ms", "30s", "5m", "12h" or "7d"'
        )
    return int(parsed["number"]) * _UNITS[parsed["unit"]]
