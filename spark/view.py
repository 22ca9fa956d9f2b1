"""What a derived view is: where it comes from, and the functions that make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.schemas import once


@dataclass(frozen=True, slots=True)
class View:
    """A view topic derived from a raw topic.

    ``decode`` takes RAW_RECORD rows and adds columns, ``reason`` among them (``spark.schemas``).
    ``derive`` takes the well-formed ones and returns ``key`` and ``value`` (string or binary), and
    ``partition`` where it must not be that of the whole key. Its values are absolute, never a
    change to what was there: a micro-batch that is written twice then changes nothing.
    ``key`` names the column that becomes the key where one does: without it a record is malformed.
    """

    name: str
    description: str
    source: str
    topic: str
    key: str | None
    decode: Callable[[DataFrame], DataFrame]
    derive: Callable[[DataFrame], DataFrame]

    def result(self, records: DataFrame) -> DataFrame:
        """RAW_RECORD rows ► the rows of the view topic."""
        return self.derive(self._checked(records).where("reason IS NULL"))

    def rejected(self, records: DataFrame) -> DataFrame:
        """RAW_RECORD rows ► those that are malformed, with their ``reason``."""
        return self._checked(records).where("reason IS NOT NULL")

    def _checked(self, records: DataFrame) -> DataFrame:
        decoded = self.decode(records)
        reason = F.col("reason")
        if self.key is not None:
            missing = F.coalesce(F.col(self.key), F.lit("")) == ""
            reason = F.coalesce(reason, F.when(missing, f"{self.key}: missing"))
        return once(decoded, "reason", reason)
