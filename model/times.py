"""Parses times and durations. All results are in ms."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS, _US = timedelta(milliseconds=1), timedelta(microseconds=1)
MAX_LENGTH = 64
"""The maximum length of a time, in characters."""
MIN_TIME, MAX_TIME = -(1 << 63), (1 << 63) - 1
"""The smallest and the greatest time (ms). Some programs use them for "no bound"."""

# RFC 3339, and the usual profile of ISO 8601: seconds and the minutes of an offset may be missing,
# and an offset may have no colon. RFC 9557: names of zones may follow. The offset counts, not the
# name.
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]"
_CLOCK = "(?:[01][0-9]|2[0-4]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:[.,][0-9]{1,9})?)?"
_OFFSET = (
    "(?:[Zz]|[+-](?:(?:0[0-9]|1[0-7])(?::?[0-5][0-9](?::?[0-5][0-9])?)?|18(?::?00(?::?00)?)?))"
)
_ZONE_NAMES = r"(?:\[[A-Za-z0-9_+\-/:.=]{1,40}\]){0,2}"
LOCAL_PATTERN = f"{_DAY}{_CLOCK}"
"""The pattern of a time without a zone, for the regular expressions of Python and Java."""
TIME_PATTERN = f"{LOCAL_PATTERN}{_OFFSET}{_ZONE_NAMES}"
"""The pattern of a time with a zone. It also matches days that do not exist."""
# The times that the parsers of Python and Spark read, which are faster.
PLAIN_PATTERN = (
    "[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,6})?"
    "(?:Z|[+-](?:(?:0[0-9]|1[0-7]):[0-5][0-9]|18:00))"
)
"""The pattern of a time that the parsers of Python and Spark read without a conversion."""

NOT_A_TIME = "not a time like 2013-01-01T10:00:00Z"
WITHOUT_ZONE = "a time without a zone: Z or an offset such as +01:00 is missing"

_LOCAL, _TIME, _PLAIN = map(re.compile, (LOCAL_PATTERN, TIME_PATTERN, PLAIN_PATTERN))
_PARTS = re.compile(
    r"(.{10}).(..):(..)(?::(..)(?:[.,]([0-9]+))?)?(?:[Zz]|([+-])(..):?(..)?:?(..)?)(?:\[.*)?"
)
_STARTS_WITH_A_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAY_SECONDS = 86_400

_INTEGER = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:Z|[+-][0-9]{2}:?[0-9]{2})?", re.ASCII)
_LOST_PLUS = re.compile(r" [0-9]{2}:?[0-9]{2}$", re.ASCII)
_DURATION = re.compile(r"(?P<number>[0-9]{1,17})(?P<unit>ms|s|m|h|d)", re.ASCII)
DAY = 86_400_000
"""A day of 24 hours in ms."""
_UNITS = {"d": DAY, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
MAX_DURATION = 999_999_999 * DAY
"""The longest duration (ms)."""


def parse_time(text: str) -> int:
    """Parse decimal epoch ms, or RFC 3339 or ISO 8601 with a time zone (`2013-01-01T10:17:00Z`), to
    epoch ms.

    Raises ValueError if the text is invalid or the time is not in MIN_TIME..MAX_TIME.
    """
    # the parameters `from` and `to` may also be keys, which may be long
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a time has at most {MAX_LENGTH} characters")
    if _INTEGER.fullmatch(text):
        number = int(text)
        if not MIN_TIME <= number <= MAX_TIME:
            raise ValueError(f"{text} is not a valid time: it does not fit in 64 bits")
        return number
    # otherwise, a zone after a date would be read as a time of day
    if only_date := _DATE.fullmatch(text):
        raise ValueError(f"{text!r} is only a date: use {only_date[1]}T00:00:00Z")
    is_usual = _STARTS_WITH_A_DATE.match(text) is not None
    try:
        if is_usual and not _LOCAL.fullmatch(text):
            return parse_instant(text) // 1000
        # perhaps an unusual form of ISO 8601
        time = None if is_usual else datetime.fromisoformat(text)
    except ValueError:
        hint = ". In a URL, write + as %2B" if _LOST_PLUS.search(text) else ""
        raise ValueError(
            f"{text[:40]!r} is not a valid time: use 2013-01-01T10:17:00Z or ms since 1970{hint}"
        ) from None
    if time is None or time.tzinfo is None:
        raise ValueError(
            f"{text!r} has no time zone: append Z or an offset such as +01:00 (in a URL: %2B01:00)"
        )
    return (time - EPOCH) // _MS


def parse_instant(text: str) -> int:
    """Parse a time with a zone, as RFC 3339 and the usual profile of ISO 8601 have it, to µs since
    1970. Further digits are dropped. A leap second counts as the second after it.

    Raises ValueError with the reason: NOT_A_TIME or WITHOUT_ZONE.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(NOT_A_TIME)
    try:
        if _PLAIN.fullmatch(text):
            return (datetime.fromisoformat(text) - EPOCH) // _US
        if _TIME.fullmatch(text):
            return _instant(text)
    except (ValueError, OverflowError):
        raise ValueError(NOT_A_TIME) from None
    raise ValueError(WITHOUT_ZONE if _LOCAL.fullmatch(text) else NOT_A_TIME)


def _instant(text: str) -> int:
    """The time in µs since 1970, from a text that matches TIME_PATTERN. Raises ValueError or
    OverflowError."""
    parts = _PARTS.fullmatch(text)
    assert parts is not None
    day, hour, minute, second, digits, sign, *offset = parts.groups("00")
    day_start = datetime.fromisoformat(f"{day}T00:00:00+00:00")
    clock = int(hour) * 3600 + int(minute) * 60 + int(second)
    fraction = int((digits or "0")[:6].ljust(6, "0"))
    if hour == "24":
        if clock != _DAY_SECONDS or int(digits or "0"):
            raise ValueError
        day_start += timedelta(days=1)  # OverflowError after the year 9999
        clock = 0
    hours, minutes, seconds = map(int, offset)
    behind = hours * 3600 + minutes * 60 + seconds
    seconds_since = (day_start - EPOCH) // timedelta(seconds=1) + clock
    seconds_since += behind if sign == "-" else -behind
    if second == "60" and seconds_since % _DAY_SECONDS:
        raise ValueError
    return seconds_since * 1_000_000 + fraction


def parse_duration(text: str) -> int:
    """Parse a duration such as `500ms`, `30s`, `5m`, `12h` or `7d` to ms. Raises ValueError."""
    parsed = _DURATION.fullmatch(text)
    if parsed is None:
        raise ValueError(
            f'"{text}" is not a valid duration: use for example "500ms", "30s", "5m", "12h" or "7d"'
        )
    duration = int(parsed["number"]) * _UNITS[parsed["unit"]]
    if duration > MAX_DURATION:
        raise ValueError(f'"{text}" is longer than {MAX_DURATION // DAY} days')
    return duration


def duration_text(ms: int) -> str:
    """The duration as `parse_duration` reads it, in the largest unit that has a whole number."""
    return next(f"{ms // size}{unit}" for unit, size in _UNITS.items() if ms % size == 0)
