"""The bounds of event times as expressions of Spark."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark.event_time.bounds import END, FIRST, EventTimeBounds

_SECOND = 1_000_000


def violations(
    bounds: EventTimeBounds, time: Column, timestamp: Column
) -> Iterator[tuple[Column, str]]:
    """As ``EventTimeBounds.violation``: conditions with their reasons. The first one that is true
    rejects a record. Both columns are timestamps; all conditions are null if ``time`` is null."""
    late, early, not_in_range = bounds.reasons
    at = F.unix_micros(time)
    behind = _difference(F.unix_micros(timestamp), at)
    if bounds.before is not None:
        yield behind > bounds.before * _SECOND, late
    yield behind < -bounds.after * _SECOND, early
    yield (at < FIRST) | (at >= END), not_in_range


def _difference(left: Column, right: Column) -> Column:
    """``left - right`` in 64 bits; if that is not enough, the limit that it exceeds."""
    limit = F.when(left > right, F.lit(2**63 - 1)).when(left < right, F.lit(-(2**63)))
    return F.coalesce(F.try_subtract(left, right), limit)
