"""Columns by name, their texts, and computations in steps."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def column_named(name: str) -> Column:
    """The column with exactly this name. In `F.col`, dots and backticks have a meaning."""
    return F.col(f"`{name.replace('`', '``')}`")


def not_text(name: str) -> Column:
    """Why the binary column has no text; null if it has one."""
    text = F.col(name).cast("string")
    return F.when(text.isNull(), f"{name}: null").when(~F.is_valid_utf8(text), f"{name}: not UTF-8")


def in_steps(values: Column, *steps: Callable[[Column], Column]) -> Column:
    """Applies functions to each element of an array, one after the other. Each names its argument:
    an expression that uses a column more than once would compute it again."""
    for step in steps:
        values = F.transform(values, step)
    return values
