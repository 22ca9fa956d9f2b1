"""Checks of decoded fields, as data: Python and Spark's Java process evaluate the same rule.

``Checks`` is a ``Validate``. A decoder whose rule is a Python function cannot run in real-time
mode; one with ``Checks`` can. Null fields pass: the schema says which fields may be null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark.formats.batches import Fields
from spark.formats.columns import column_named


class Check(Protocol):
    """One rule: whether it is violated, in Python and as a column, and the reason."""

    @property
    def reason(self) -> str: ...

    def is_violated(self, fields: Fields) -> bool: ...

    def violated(self) -> Column:
        """True, false or null, which is like false."""


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """A text that must not be empty."""

    field: str

    @property
    def reason(self) -> str:
        return f"{self.field}: missing"

    def is_violated(self, fields: Fields) -> bool:
        return bool(fields[self.field] == "")

    def violated(self) -> Column:
        return column_named(self.field) == ""


@dataclass(frozen=True, slots=True)
class Within:
    """A whole number from ``low`` to ``high``."""

    field: str
    low: int
    high: int

    @property
    def reason(self) -> str:
        return f"{self.field}: not within {self.low} to {self.high}"

    def is_violated(self, fields: Fields) -> bool:
        number = fields[self.field]
        return number is not None and not self.low <= number <= self.high

    def violated(self) -> Column:
        return ~column_named(self.field).between(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Needs:
    """If ``field`` is not null, ``other`` must not be null."""

    field: str
    other: str

    @property
    def reason(self) -> str:
        return f"{self.other}: missing"

    def is_violated(self, fields: Fields) -> bool:
        return fields[self.field] is not None and fields[self.other] is None

    def violated(self) -> Column:
        return column_named(self.field).isNotNull() & column_named(self.other).isNull()


class Checks:
    """A ``Validate``: the reason of the first check that is violated, or None."""

    def __init__(self, *checks: Check) -> None:
        self.checks = checks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checks) and self.checks == other.checks

    def __hash__(self) -> int:
        return hash(self.checks)

    def __call__(self, fields: Fields) -> str | None:
        return next((check.reason for check in self.checks if check.is_violated(fields)), None)

    def column(self) -> Column:
        """The same reason as a column, for rows with the fields."""
        reasons = (F.when(check.violated(), F.lit(check.reason)) for check in self.checks)
        return F.coalesce(F.lit(None).cast("string"), *reasons)
