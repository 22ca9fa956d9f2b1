"""The calendar: parts of a time, and the start of an hour, day or month, in UTC or in a zone.

Times are in µs since 1970. The calendar is the Gregorian one for all years, as in ISO 8601, Java
and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from model.expressions.types import MAX_SECONDS

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
_CYCLE_DAYS = 146_097
"""The days of 400 years, after which the calendar repeats."""
_CYCLE = _CYCLE_DAYS * DAY

UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""The units of ``date_trunc``. A week begins on Monday, as in ISO 8601."""
CLOCK_UNITS = {"second": SECOND, "minute": MINUTE, "hour": HOUR}
EARLIEST, LATEST = -(2**63) + 400 * DAY, 2**63 - 1 - 2 * DAY
"""The earliest and the latest time that the calendar computes. A time beyond them becomes the
nearer one."""

Part = Callable[[int], int]
"""A function of a local time, in µs since 1970 in its zone."""


def timestamp_function(per_second: int) -> Callable[[int], int | None]:
    """A function from a number of s, ms or µs since 1970 to the time, or to None if it does
    not fit in 64 bits of µs."""
    most, factor = MAX_SECONDS * per_second, SECOND // per_second

    def timestamp(number: int) -> int | None:
        return number * factor if -most <= number <= most else None

    return timestamp


def offset_function(zone: str | None) -> Callable[[int], int]:
    """A function from a time to the µs that the zone is ahead of UTC."""
    if zone is None or zone == "UTC":
        return lambda time: 0
    info, epoch = ZoneInfo(zone), datetime(1970, 1, 1, tzinfo=UTC)
    first, last = -1900 * 365 * DAY, 400 * 365 * DAY

    def offset(time: int) -> int:
        if time > last:
            time = last - _CYCLE + (time - last) % _CYCLE
        at = epoch + timedelta(microseconds=max(time, first))
        ahead = at.astimezone(info).utcoffset()
        assert ahead is not None
        return ahead // timedelta(microseconds=1)

    return offset


def _local_to_utc(zone: str | None) -> Callable[[int], int]:
    """A function from a local time to the first time at which the zone's clocks show it. If they
    skip it, the offset before the skipped hour applies."""
    if zone is None or zone == "UTC":
        return lambda local: local
    offset = offset_function(zone)

    def utc(local: int) -> int:
        before = offset(local - DAY)
        if offset(local - before) == before:
            return local - before
        after = offset(local + DAY)
        is_skipped = offset(local - after) != after
        return local - (before if is_skipped else after)

    return utc


def civil(days: int) -> tuple[int, int, int]:
    """Days since 1970 ► year, month and day."""
    cycle, day = divmod(days + 719_468, _CYCLE_DAYS)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153  # 0 is March
    day_of_month = day - (153 * month + 2) // 5 + 1
    in_next_year = month >= 10
    return (
        400 * cycle + year + in_next_year,
        month - 9 if in_next_year else month + 3,
        day_of_month,
    )


def days_of(year: int, month: int, day: int) -> int:
    """Year, month and day ► days since 1970."""
    year -= month <= 2
    cycle, of_cycle = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return (
        cycle * _CYCLE_DAYS + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + of_year - 719_468
    )


PARTS: dict[str, Part] = {
    "year": lambda local: civil(local // DAY)[0],
    "month": lambda local: civil(local // DAY)[1],
    "day": lambda local: civil(local // DAY)[2],
    "dayofweek": lambda local: (local // DAY + 4) % 7 + 1,
    "hour": lambda local: local // HOUR % 24,
    "minute": lambda local: local // MINUTE % 60,
    "second": lambda local: local // SECOND % 60,
}


def part_function(name: str, zone: str | None) -> Callable[[int], int]:
    """A function from a time to one of its parts, such as ``hour``."""
    part, offset = PARTS[name], offset_function(zone)

    def of_time(time: int) -> int:
        time = bounded(time)
        return part(time + offset(time))

    return of_time


def date_function(zone: str | None) -> Callable[[int], str]:
    """A function from a time to its date as text, such as 2026-01-31."""
    offset = offset_function(zone)

    def date(time: int) -> str:
        time = bounded(time)
        year, month, day = civil((time + offset(time)) // DAY)
        return f"{year:04d}-{month:02d}-{day:02d}"

    return date


def bounded(time: int) -> int:
    return min(max(time, EARLIEST), LATEST)


def trunc_function(unit: str, zone: str | None = None) -> Callable[[int], int]:
    """A function from a time to the start of the unit that contains it, as ``date_trunc``."""
    unit = unit.lower()
    offset, utc = offset_function(zone), _local_to_utc(zone)
    if unit in CLOCK_UNITS:
        length = CLOCK_UNITS[unit]

        def within(time: int) -> int:
            time = bounded(time)
            return time - (time + offset(time)) % length

        return within

    def start(time: int) -> int:
        time = bounded(time)
        return utc(_first_day((time + offset(time)) // DAY, unit) * DAY)

    return start


def _first_day(days: int, unit: str) -> int:
    if unit == "day":
        return days
    if unit == "week":
        return days - (days + 3) % 7
    year, month, _ = civil(days)
    if unit == "quarter":
        month -= (month - 1) % 3
    return days_of(year, 1 if unit == "year" else month, 1)
