"""Windows of the calendar, compared with a search for the first minute of a day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.expressions.zones import check_zone
from model.kinds.calendar_windows import CalendarWindows, parse_unit
from model.times import parse_time

ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"),
    "Australia/Lord_Howe",  # the clock is changed by half an hour
    "Pacific/Apia",  # 2011-12-30 did not exist
    "America/Sao_Paulo",  # midnight did not exist on the days of changes
    "America/St_Johns",  # the clock was set back at 00:01, so midnight came twice
)
MINUTE = 60_000


def first_moment(day: date, zone: str) -> int:
    """The first minute that belongs to the day or to a later one (ms)."""
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=16)
    for step, back in ((timedelta(hours=1), timedelta(hours=3)), (timedelta(minutes=1), None)):
        while moment.astimezone(ZoneInfo(zone)).date() < day:
            moment += step
        moment -= back or timedelta(0)
    return round(moment.timestamp() * 1000)


def span(unit: str, zone: str, time: str) -> tuple[str, str]:
    """The start and the end as local times, with their offsets."""
    start, end = CalendarWindows(unit, zone).window(parse_time(time))
    local = [datetime.fromtimestamp(at / 1000, ZoneInfo(zone)).isoformat() for at in (start, end)]
    return local[0], local[1]


@pytest.mark.parametrize(
    ("unit", "zone", "time", "start", "end"),
    [
        ("month", "UTC", "2026-02-28T23:59:59Z", "2026-02-01T00:00:00+00:00",
         "2026-03-01T00:00:00+00:00"),
        ("month", "Europe/Berlin", "2026-02-28T23:30:00Z", "2026-03-01T00:00:00+01:00",
         "2026-04-01T00:00:00+02:00"),
        ("month", "Europe/Berlin", "2026-12-31T22:59:59Z", "2026-12-01T00:00:00+01:00",
         "2027-01-01T00:00:00+01:00"),
        ("week", "Europe/Berlin", "2026-03-29T21:59:59Z", "2026-03-23T00:00:00+01:00",
         "2026-03-30T00:00:00+02:00"),  # ends with a Sunday of 23 hours
        ("week", "UTC", "2026-01-01T00:00:00Z", "2025-12-29T00:00:00+00:00",
         "2026-01-05T00:00:00+00:00"),  # week 1 of 2026
        ("day", "Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-05T00:00:00+11:00",
         "2026-04-06T00:00:00+10:30"),
        ("day", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T00:00:00-10:00",
         "2011-12-31T00:00:00+14:00"),
        ("day", "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T01:00:00-02:00",
         "2018-11-05T00:00:00-02:00"),
        ("day", "America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-07T00:00:00-02:30",
         "2010-11-08T00:00:00-03:30"),  # 23:15 on the 6th, after the first minute of the 7th
        ("year", "America/New_York", "2026-07-01T00:00:00Z", "2026-01-01T00:00:00-05:00",
         "2027-01-01T00:00:00-05:00"),
    ],
)  # fmt: skip
def test_windows(unit: str, zone: str, time: str, start: str, end: str) -> None:
    assert span(unit, zone, time) == (start, end)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-28", 24), ("2026-03-29", 23), ("2026-10-25", 25)]
)
def test_days_of_23_and_25_hours(day: str, hours: int) -> None:
    start, end = CalendarWindows("day", "Europe/Berlin").window(parse_time(f"{day}T12:00:00Z"))
    assert end - start == hours * 3_600_000


@given(
    zone=st.sampled_from(ZONES),
    day=st.dates(date(1971, 1, 2), date(2100, 12, 31))
    | st.sampled_from([date(2011, 12, 30), date(2018, 11, 4), date(2010, 11, 7)]),
    minutes=st.integers(0, 1439),
)
def test_days_begin_with_their_first_moment(zone: str, day: date, minutes: int) -> None:
    starts = [first_moment(day + timedelta(days=n), zone) for n in range(-2, 3)]
    time = min(starts[2] + minutes * MINUTE, starts[3])
    expected = max(s for s in starts if s <= time), min(s for s in starts if s > time)
    assert CalendarWindows("day", zone).window(time) == expected
    assert CalendarWindows("day", zone).end(expected[0]) == expected[1]


def test_ends_of_impossible_starts_are_unknown() -> None:
    for start in (-(1 << 63), (1 << 63) - 1, parse_time("0001-01-01T00:00:00Z")):
        assert CalendarWindows("month", "Europe/Berlin").end(start) is None


def test_units() -> None:
    assert [parse_unit(f"1 {unit}") for unit in ("day", "week", "month", "year", "months")] == [
        "day", "week", "month", "year", "month",
    ]  # fmt: skip
    assert [parse_unit(text) for text in ("", "1d", "30d", "1 minute", "month")] == [None] * 5
    for text in ("2 months", "1 quarter", "0 days"):
        with pytest.raises(ValueError, match='use "1 day", "1 week", "1 month", "1 year"'):
            parse_unit(text)


def test_names_of_time_zones() -> None:
    for zone in (*ZONES, "America/Argentina/Buenos_Aires", "Etc/GMT+5"):
        check_zone(zone)
    for wrong in (
        *("", "Berlin", "CET", "+01:00", "europe/berlin", "Europe/Atlantis", "America/Argentina"),
        *("/etc/passwd", "../Europe/Berlin", "right/Europe/Berlin", "x/" * 99),
    ):
        with pytest.raises(ValueError, match="is not a time zone such as"):
            check_zone(wrong)
