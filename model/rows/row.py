"""What the value of a record means."""

from __future__ import annotations

from enum import Enum


class NoRow(Enum):
    """The value says nothing about the key, such as the end of a transaction."""

    NO_ROW = "no row"


NO_ROW = NoRow.NO_ROW

Row = bytes | None | NoRow
"""The row, a deletion, or nothing."""
