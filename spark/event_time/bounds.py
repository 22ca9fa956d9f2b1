"""The largest difference between the time of an event and the Kafka timestamp of its record.

The rule depends only on the record: not on other records, the order of reading, or the number of
micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from model.times import EPOCH

LATENESS = 3600
"""Default bound in seconds for an event before its record's timestamp: shipping takes time."""
EARLINESS = 3600
"""Default bound in seconds for an event after its record's timestamp: clocks differ."""

LATE = "late: "
"""This follows the field's name in the reason for a late record."""

_SECOND = 1_000_000
_MICROSECOND = timedelta(microseconds=1)


def microseconds(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - EPOCH) // _MICROSECOND


# pandas stores times as 64-bit nanoseconds. Spark's first watermark is 1970, and it drops older
# rows.
_YEARS = (1971, 2260)
FIRST = microseconds(datetime(_YEARS[0], 1, 1, tzinfo=UTC))
END = microseconds(datetime(_YEARS[1] + 1, 1, 1, tzinfo=UTC))
"""The first allowed time and the end (not allowed itself), in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class EventTimeBounds:
    """``field`` has the event's time. It may be up to ``before`` s before and up to ``after`` s
    after the record's timestamp. If ``before`` is None, no event is late: the state of each time
    is kept, because another event with this time may always arrive."""

    field: str
    before: int | None
    after: int

    @property
    def reasons(self) -> tuple[str, str, str]:
        """Why a record is rejected: it is late, or early, or its time is not in FIRST to END. The
        first reason has no meaning if no event is late."""
        return (
            f"{self.field}: {LATE}more than {self.before} s before the record's timestamp",
            f"{self.field}: more than {self.after} s after the record's timestamp",
            f"{self.field}: not within {_YEARS[0]} to {_YEARS[1]}",
        )

    def violation(self, time: int, timestamp: int) -> str | None:
        """Why the record is rejected, or None. Both times are microseconds since 1970."""
        if self.before is not None and timestamp - time > self.before * _SECOND:
            return self.reasons[0]
        if time - timestamp > self.after * _SECOND:
            return self.reasons[1]
        return None if FIRST <= time < END else self.reasons[2]
