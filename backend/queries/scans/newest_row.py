"""The newest row of a key that has moved to another partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from backend.instance.context import QueryContext
from backend.queries.moved_keys import homes_of, partition_counts
from backend.queries.scans.partials import PlacedRow
from backend.wire.scan import Row
from model.records import decode_entry
from model.views import View


class NewestRow:
    """Chooses, among the rows with the same stored key, the row with the greatest timestamp. If
    several have it, the row in the latest partition of the key counts. `moved_keys` says why.

    The row has expired if it is too old in one of the partitions that the key has belonged to.
    Otherwise an older row would count after a newer row, or a tombstone, has expired.
    """

    compares_all = False

    def __init__(self, context: QueryContext, view: View, with_times: bool) -> None:
        """`with_times`: the rows of a versioned view are all versions."""
        self._view = view
        self._with_times = with_times
        self._counts = partition_counts(context, view)
        # the latest version of a key never expires
        self._expires = view.retention is not None and not view.kind.has_versions
        self.asks_separately = self._expires

    def whole(self, rows: Sequence[PlacedRow], stream_times: Mapping[int, int]) -> list[Row]:
        """One row per stored key, or none if it has expired."""
        newest_rows = [self._newest(list(same)) for _, same in groupby(rows, itemgetter(0))]
        if self._expires and stream_times:
            kind, latest = self._view.kind, max(stream_times.values())
            horizon = kind.horizon(self._view, latest)
            newest_rows = [
                row
                for row in newest_rows
                if (time := kind.time_of(row[0], decode_entry(row[1]).timestamp)) >= horizon
                or not self._is_expired(row, time, stream_times)
            ]
        return newest_rows

    def _is_expired(self, row: Row, time: int, stream_times: Mapping[int, int]) -> bool:
        homes = self._homes(row[0])
        latest = max((stream_times[home] for home in homes if home in stream_times), default=None)
        return time < self._view.kind.horizon(self._view, latest)

    def _homes(self, stored_key: bytes) -> list[int]:
        key = self._view.kind.row_key(self._view, stored_key, self._with_times).key
        return homes_of(self._view, key, self._counts)

    def _newest(self, rows: list[PlacedRow]) -> Row:
        latest = max(decode_entry(row.head).timestamp for row in rows)
        rows = [row for row in rows if decode_entry(row.head).timestamp == latest]
        if len(rows) > 1:
            homes = self._homes(rows[0].key)
            rows.sort(key=lambda row: max(_positions(homes, row.partition), default=-1))
        return rows[-1][:3]


def _positions(homes: Sequence[int], partition: int) -> list[int]:
    return [number for number, home in enumerate(homes) if home == partition]
