"""Functions of times as columns. ``model.expressions.calendar`` has them in Python.

The session's time zone is UTC.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from model.expressions.calendar import CLOCK_UNITS, EARLIEST, HOUR, LATEST, MINUTE, SECOND
from model.expressions.types import MAX_SECONDS, TIME, Type

_LENGTHS = {"hour": (HOUR, 24), "minute": (MINUTE, 60), "second": (SECOND, 60)}


def timestamp(number: Column, per_second: int, type_: Type) -> Column:
    """The time at a number of s, ms or µs since 1970. ``type_``: that of the number."""
    most = MAX_SECONDS * per_second
    if type_.low < -most or type_.high > most:
        number = F.when(number.between(-most, most), number)
    make = {1: F.timestamp_seconds, 1000: F.timestamp_millis, SECOND: F.timestamp_micros}
    return make[per_second](number)


def local(time: Column, zone: str | None, type_: Type) -> Column:
    """The time that clocks show in the zone, as a time in UTC."""
    time = _bounded(time, type_)
    return time if zone in (None, "UTC") else F.from_utc_timestamp(time, F.lit(zone))


def _bounded(time: Column, type_: Type) -> Column:
    if type_.low >= TIME.low and type_.high <= TIME.high:
        return time
    bounded = F.least(F.greatest(time, _time(EARLIEST)), _time(LATEST))
    return F.when(time.isNotNull(), bounded)  # because these two ignore nulls


def _time(micros: int) -> Column:
    return F.timestamp_micros(F.lit(micros))


def part(name: str, time: Column) -> Column:
    """A part of a local time, such as its hour."""
    if name in _LENGTHS:
        length, count = _LENGTHS[name]
        return F.pmod(_floor_div(F.unix_micros(time), length), F.lit(count)).cast("long")
    parts = {
        "year": F.year,
        "month": F.month,
        "day": F.dayofmonth,
        "dayofweek": F.dayofweek,
    }
    return parts[name](time).cast("long")


def _floor_div(number: Column, by: int) -> Column:
    return F.call_function("div", number - F.pmod(number, F.lit(by)), F.lit(by))


def date(time: Column) -> Column:
    """The day of a local time as text."""
    return F.format_string("%04d-%02d-%02d", F.year(time), F.month(time), F.dayofmonth(time))


def truncated(unit: str, time: Column, zone: str | None, type_: Type) -> Column:
    """The start of an hour, a day or another unit."""
    unit = unit.lower()
    time = _bounded(time, type_)
    if zone in (None, "UTC"):
        return F.date_trunc(unit, time)
    there = F.from_utc_timestamp(time, F.lit(zone))
    if unit in CLOCK_UNITS:
        past = F.pmod(F.unix_micros(there), F.lit(CLOCK_UNITS[unit]))
        return F.timestamp_micros(F.unix_micros(time) - past)
    return F.to_utc_timestamp(F.date_trunc(unit, there), F.lit(zone))
