"""The rows of a scan as a record batch, made in steps between other requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from backend.queries.arrow.columns import ArrowColumns, columns_of
from backend.queries.arrow.messages import batch_part
from backend.queries.turns import in_steps, next_turn
from backend.wire.scan import Row
from model.views import View

_TIMESTAMPS, _SCHEMA = "timestamps", "schema"
"""The arguments of a scan for columns: whether they have the timestamps of records, and which
columns the sender expects."""

_PIECE = 250  # rows; arrays of fewer cost more than their values


def arguments_for(columns: ArrowColumns) -> dict[str, str | bool]:
    """The arguments of a scan for these columns."""
    return {_TIMESTAMPS: columns.has_timestamps, _SCHEMA: columns.digest}


def columns_for(view: View, select: str | None, arguments: Mapping[str, Any]) -> ArrowColumns:
    """The columns that a scan asks for. Raises ValueError if those of this instance differ: it has
    another version."""
    columns = columns_of(view, select, arguments.get(_TIMESTAMPS) is True)
    if arguments != arguments_for(columns):
        raise ValueError("a scan for other columns than this instance has")
    return columns


async def part_of(columns: ArrowColumns, rows: Sequence[Row]) -> bytes:
    """The part of a stream (`messages.batch_part`) with these rows, which have record values."""
    batches = [
        columns.batch([(key, head + value) for key, head, value in piece])
        async for piece in in_steps(rows, _PIECE)
    ]
    await next_turn()
    return batch_part(pa.concat_batches(batches))
