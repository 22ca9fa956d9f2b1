"""The largest difference between the time of an event and the Kafka timestamp of its record.

The rule depends only on the record: not on other records, the order of reading, or the number of
micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

LATENESS = 3600
"""Default bound in seconds for an event before its record's timestamp: shipping takes time."""
EARLINESS = 3600
"""Default bound in seconds for an event after its record's timestamp: clocks differ."""

LATE = "late: "
"""This follows the field's name in the reason for a late record."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000

# pandas stores times as 64-bit nanoseconds. Spark's first watermark is 1970, and it drops older
# rows.
_FIRST = datetime(1971, 1, 1, tzinfo=UTC)
_LAST = datetime(2261, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EventTimeBounds:
    """``field`` has the event's time; it may be ``before`` s before and ``after`` s after the
    record's timestamp."""

    field: str
    before: int
    after: int

    def violation(self, time: int, timestamp: int) -> str | None:
        """Why the record is rejected, or None. Both times are microseconds since 1970."""
        if timestamp - time > self.before * _SECOND:
            return f"{self.field}: {LATE}more than {self.before} s before the record's timestamp"
        if time - timestamp > self.after * _SECOND:
            return f"{self.field}: more than {self.after} s after the record's timestamp"
        if not _microseconds(_FIRST) <= time < _microseconds(_LAST):
            return f"{self.field}: not within {_FIRST.year} to {_LAST.year - 1}"
        return None


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)
