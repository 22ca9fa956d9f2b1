"""The newest row of a key that has moved to another partition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from backend.instance_context import InstanceContext
from backend.queries.moved_keys import homes_of, partition_counts
from backend.queries.scans.partials import PlacedRow
from backend.wire.scan import Row
from model.records import decode_entry
from model.views import View


class NewestRow:
    """Of the rows with the same stored key, the one with the greatest timestamp; then the one in
    the partition that the key has got latest. `moved_keys` says why."""

    compares_all = False

    def __init__(self, context: InstanceContext, view: View, with_times: bool) -> None:
        """`with_times`: the rows of a versioned view are all versions."""
        self._view = view
        self._with_times = with_times
        self._counts = partition_counts(context, view)

    def whole(self, rows: Sequence[PlacedRow]) -> list[Row]:
        """One row per stored key."""
        return [self._newest(list(same)) for _, same in groupby(rows, itemgetter(0))]

    def _newest(self, rows: list[PlacedRow]) -> Row:
        latest = max(decode_entry(row.head).timestamp for row in rows)
        rows = [row for row in rows if decode_entry(row.head).timestamp == latest]
        if len(rows) > 1:
            key = self._view.kind.row_key(self._view, rows[0].key, self._with_times).key
            homes = homes_of(self._view, key, self._counts)
            rows.sort(key=lambda row: max(_positions(homes, row.partition), default=-1))
        return rows[-1][:3]


def _positions(homes: Sequence[int], partition: int) -> list[int]:
    return [number for number, home in enumerate(homes) if home == partition]
