"""Record batches of the entries of a partition, as a part of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from backend.queries.arrow.columns import ArrowColumns, columns_of
from backend.queries.arrow.messages import batch_part
from model.rows.row_view import Pair
from model.views import View

_TIMESTAMPS, _SCHEMA = "timestamps", "schema"
"""The arguments of a scan for columns: whether they have the timestamps of records, and which
columns the sender expects."""


def arguments_for(columns: ArrowColumns) -> dict[str, str | bool]:
    """The arguments of a scan for these columns."""
    return {_TIMESTAMPS: columns.has_timestamps, _SCHEMA: columns.digest}


class Batches:
    """Collects up to `limit` rows. `rows`: their number so far; `room`: how many more fit."""

    def __init__(
        self, view: View, select: str | None, arguments: Mapping[str, Any], limit: int
    ) -> None:
        """Raises ValueError if the sender expects other columns than this instance has: it has
        another version."""
        self._columns = columns_of(view, select, arguments.get(_TIMESTAMPS) is True)
        if arguments != arguments_for(self._columns):
            raise ValueError("a scan for other columns than this instance has")
        self._batches: list[pa.RecordBatch] = []
        self.rows, self.room = 0, limit

    def add(self, pairs: Sequence[Pair]) -> None:
        """Adds entries, none of which is a tombstone."""
        if pairs:
            self._batches.append(self._columns.batch(pairs))
            self.rows += len(pairs)
            self.room -= len(pairs)

    def part(self) -> bytes:
        """All rows, at least one, as `messages.batch_part`."""
        return batch_part(pa.concat_batches(self._batches))
