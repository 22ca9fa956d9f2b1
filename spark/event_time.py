"""How far an event's time may be from its record's Kafka timestamp: a rule of the record alone.

It does not depend on what was read before, in which order, or in how many micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000

# pandas has times as 64-bit nanoseconds. Spark's first watermark is 1970, and drops what is older.
_FIRST = datetime(1971, 1, 1, tzinfo=UTC)
_LAST = datetime(2261, 1, 1, tzinfo=UTC)

LATE = "late: "
"""What the reason of a late record has behind its field's name."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """The field that has the event's time, and its greatest distances from the timestamp, in s."""

    field: str
    before: int
    after: int

    def wrong(self, time: int, timestamp: int) -> str | None:
        """Why the record is left out; both times are microseconds since 1970."""
        if timestamp - time > self.before * _SECOND:
            return f"{self.field}: {LATE}more than {self.before} s before the record's timestamp"
        if time - timestamp > self.after * _SECOND:
            return f"{self.field}: more than {self.after} s after the record's timestamp"
        if not _microseconds(_FIRST) <= time < _microseconds(_LAST):
            return f"{self.field}: not within {_FIRST.year} to {_LAST.year - 1}"
        return None


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)
