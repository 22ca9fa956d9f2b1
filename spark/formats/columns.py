"""Columns by name."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def column_named(name: str) -> Column:
    """The column with exactly this name. In `F.col`, dots and backticks have a meaning."""
    return F.col(f"`{name.replace('`', '``')}`")
