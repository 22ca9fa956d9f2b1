"""What part of a view a scan asks for, and what an instance answers.

A scan runs over stored keys, whose byte order is the order of the type. How the answers of several
instances become one is in `queries/scans/merging.py`; their bytes are in `scan_codec.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.wire.cursor import Question
from model.kinds import layout
from model.kinds.layout import Range
from model.views import View

ALLOW, NEVER = "allow", "never"
"""`stale=`: replicas that are catching up may answer, too; only the active may answer. If it is not
given (None), all answerable replicas may, the active before its standbys."""

Row = tuple[bytes, bytes, bytes]
"""Stored key (without the time, if the store is versioned), entry head (timestamp, offset), item.
A tombstone has an empty item: it may be newer than the entry of another partition. An unreadable
entry has a JSON item, or the rest of the placed entry (`model.records.place`)."""

KNOWS_UNREADABLE = (b"queryable-unreadable", b"1")
"""The header of a request for a scan: its sender knows unreadable entries. Older ones do not."""


@dataclass(frozen=True)
class Query:
    """Entries with low <= stored key < high; windows that start, or sessions that overlap, within
    first..last (ms, both inclusive; None: no bound). `where`: the condition that they meet.
    `select`: the fields of their values. `fields`: the hash of the declared fields, on whose types
    a condition depends. `max_examined`: how many entries to read at most. `by_index`: whether only
    entries that an index names may be read. `order_by`: the `field_names` of the index in whose
    order rows come; cursors are places in it then."""

    low: bytes = layout.ALL[0]
    high: bytes = layout.ALL[1]
    backwards: bool = False
    first: int | None = None
    last: int | None = None
    stale: str | None = None  # ALLOW, NEVER
    where: str | None = None
    select: str | None = None
    fields: str | None = None
    max_examined: int | None = None
    by_index: bool | None = None
    order_by: str | None = None

    def question(self, view: View, kind: str) -> Question:
        """What identifies this query in its cursors."""
        low, high = self.low.hex(), self.high.hex()
        asked: Question = (view.hash, kind, self.backwards, low, high, self.first, self.last)
        if self.order_by is not None:
            asked = (*asked, "order_by", self.order_by)
        return asked if self.where is None else (*asked, self.where)

    def rest(self, view: View, after: bytes | None) -> Range:
        """What is left of the range behind a row's key."""
        if after is None or self.order_by is not None:
            return self.low, self.high
        if self.backwards:
            return self.low, after
        return view.kind.after_row(after), self.high


@dataclass
class ScanResponse:
    """The response of one instance for some partitions.

    `reached`: the response covers all entries up to this key; None: to the end. `counted`: the
    number of entries read; a key in two partitions has two. `complete`: False if entries were left
    out because another of the partitions has a newer one of the same stored key, or if a reducer
    could not keep everything.
    """

    rows: list[Row] = field(default_factory=list)
    reached: bytes | None = None
    counted: int = 0
    missing: dict[int, str] = field(default_factory=dict)  # partition -> code of the reason
    lag: int | None = None  # the greatest; None if one is unknown
    staleness: float | None = None  # s
    mispartitioned: bool = False  # a key may be in several partitions
    complete: bool = True
    stream_time: int | None = None  # ms; the latest
    roles: tuple[str, ...] = ()  # of the instance for these partitions
    positions: dict[int, int] = field(default_factory=dict)  # of the partitions, before the scan
    # numbers of partitions with which the records before these positions were written; empty:
    # not known
    partition_counts: tuple[int, ...] = ()
    unreadable: int = 0  # entries that a reducer did not get, because they cannot be read
    plans: tuple[str, ...] = ()  # how the entries were found; empty: by an older version
    examined: int = 0  # entries that were read, with those that are no rows
    instance: str = ""  # the one that has responded; set by the sender of the request
