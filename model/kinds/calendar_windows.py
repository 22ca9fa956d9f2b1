"""Windows of the calendar: the days, weeks, months and years of a time zone.

A window begins at the first moment of its first day, and ends where the next one begins. So a day
has 23 or 25 hours if the clock is changed. Weeks begin on Monday (ISO 8601). The time zones are
those of IANA, from the files of the operating system or from the package tzdata.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from model.expressions.zones import UTC
from model.times import EPOCH

UNITS = ("day", "week", "month", "year")

_TEXT = re.compile(r"(?P<number>[0-9]{1,9}) +(?P<unit>[a-z]+?)s?", re.ASCII)
_MS, _DAY = timedelta(milliseconds=1), timedelta(days=1)
_KEPT = 4096  # windows: those of eleven years of days


@dataclass(frozen=True, slots=True)
class CalendarWindows:
    """Windows of one `unit` (of UNITS) in the time zone `zone`."""

    unit: str
    zone: str = UTC

    def __str__(self) -> str:
        """As in views.toml."""
        return f"1 {self.unit}"

    def window(self, time: int) -> tuple[int, int]:
        """The start, inclusive, and the end, exclusive, of the window that contains the time. All
        are in ms. Raises ValueError or OverflowError outside of the years 2 to 9998."""
        return _window(self.unit, self.zone, time)

    def end(self, start: int) -> int | None:
        """The end of the window with this start (ms); None outside of the years 2 to 9998."""
        try:
            return self.window(start)[1]
        except (ValueError, OverflowError):
            return None


def parse_unit(text: str) -> str | None:
    """The unit of `1 month`; None if the text does not name a unit of the calendar. Raises
    ValueError if it is not one unit."""
    match = _TEXT.fullmatch(text)
    if match is None or match["unit"] not in (*UNITS, "quarter", "fortnight", "decade"):
        return None
    if match["unit"] not in UNITS or match["number"] != "1":
        allowed = ", ".join(f'"1 {unit}"' for unit in UNITS)
        raise ValueError(f'"{text}" is not a window of the calendar: use {allowed}')
    return match["unit"]


@lru_cache(_KEPT)
def _window(unit: str, zone_name: str, time: int) -> tuple[int, int]:
    zone = ZoneInfo(zone_name)
    first_day, next_day = _STEPS[unit]
    day = first_day((EPOCH + time * _MS).astimezone(zone).date())
    # Where midnight comes twice, the time of the day may be before the start of its next day, which
    # has begun already.
    days = [first_day(day - _DAY), day, next_day(day)]
    days.append(next_day(days[-1]))
    starts = [_start(day, zone) for day in days]
    return (
        max(start for start in starts if start <= time),
        min(start for start in starts if start > time),
    )


def _start(day: date, zone: ZoneInfo) -> int:
    """The first moment of the day (ms). If the clock is changed at midnight, this is the first
    midnight, or the moment of the change."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    return (midnight - EPOCH) // _MS


_Step = Callable[[date], date]
_STEPS: dict[str, tuple[_Step, _Step]] = {
    "day": (lambda day: day, lambda day: day + _DAY),
    "week": (lambda day: day - day.weekday() * _DAY, lambda day: day + 7 * _DAY),
    "month": (
        lambda day: day.replace(day=1),
        lambda day: (day.replace(day=1) + 32 * _DAY).replace(day=1),
    ),
    "year": (
        lambda day: day.replace(month=1, day=1),
        lambda day: day.replace(year=day.year + 1, month=1, day=1),
    ),
}
"""The first day of the unit that contains a day, and the first day of the next one."""
