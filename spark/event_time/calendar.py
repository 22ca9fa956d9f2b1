"""Windows of the calendar as expressions of Spark. `model.kinds.calendar_windows` defines them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from model.kinds.calendar_windows import CalendarWindows
from spark.event_time.watermarks import NEVER_DAYS

# Spark frees the state of a group if a column of its key is marked as an event time, and the
# watermark has passed it. In a struct, the second field counts, which is the end of a window.
# `F.window` sets this mark, too. An expression in `groupBy` would lose it, a column does not.
_EVENT_TIME = {"spark.watermarkDelayMs": NEVER_DAYS * 86_400_000}

_NEXT: dict[str, Callable[[Column], Column]] = {
    "day": lambda start: start + F.lit(timedelta(days=1)),
    "week": lambda start: start + F.lit(timedelta(days=7)),
    "month": lambda start: start + F.make_ym_interval(F.lit(0), F.lit(1)),
    "year": lambda start: start + F.make_ym_interval(F.lit(1), F.lit(0)),
}


def with_calendar_window(
    rows: DataFrame, time: str, windows: CalendarWindows, name: str
) -> DataFrame:
    """Adds the column ``name``: a struct with the ``start`` and the ``end`` of the window that
    contains the timestamp in the column ``time``."""
    window = _window(F.col(time), windows).alias(name, metadata=_EVENT_TIME)
    return rows.withColumn(name, window)


def _window(time: Column, windows: CalendarWindows) -> Column:
    """The session's time zone is UTC, so Spark's functions compute with local times as if these
    were in UTC. Since 1971, each clock that skipped midnight was set forward at midnight. So no
    time of a day is before `first`."""
    zone = F.lit(windows.zone)
    local = F.date_trunc(windows.unit, F.from_utc_timestamp(time, zone))
    step = _NEXT[windows.unit]
    first, second, third = (
        F.to_utc_timestamp(start, zone) for start in (local, step(local), step(step(local)))
    )
    # where midnight comes twice, the next window may have begun before the local day ends
    has_next_begun = second <= time
    return F.struct(
        F.when(has_next_begun, second).otherwise(first).alias("start"),
        F.when(has_next_begun, third).otherwise(second).alias("end"),
    )
