"""Joins of a stream with tables that do not change while the view exists."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from model.derive.derivation import Join
from model.derive.fields import Paths
from model.expressions.types import Kind, Type
from model.rows.reader import RowRule
from spark.derive.columns import column
from spark.derive.json_values import NO_ROW, NOT_REJECTED, DeclaredJson
from spark.event_time.bounds import EventTimeBounds
from spark.formats.batches import FIELDS, REASON
from spark.formats.columns import not_text

MAX_TEXT_BYTES = 1000
"""A field of a table can become a key, which must not be too long."""

_KEY = "#key"
# Not the timestamp: compaction keeps the last record of a key in the log.
_ORDER = ("partition", "offset")


@dataclass(frozen=True, slots=True)
class TableDecoder:
    """Decodes records whose key is text and whose value is a JSON object, or null: a tombstone.

    Well-formed rows have ``key``, ``partition``, ``offset`` and a struct ``FIELDS``, which is null
    in a tombstone. Malformed records are ignored.
    """

    fields: tuple[tuple[str, Type], ...]
    rows: RowRule | None = None
    paths: Paths = ()

    @property
    def event_time(self) -> EventTimeBounds | None:
        return None

    @property
    def is_table(self) -> bool:
        return True

    def well_formed(self, records: DataFrame) -> DataFrame:
        rows = self._judged(records, ["key", *_ORDER]).where(self._wrong().isNull())
        rows = rows.where(~F.col(REASON).eqNullSafe(NO_ROW))
        fields = F.when(F.isnull(REASON), F.col(FIELDS))
        return rows.select(F.col("key").cast("string"), *_ORDER, fields.alias(FIELDS))

    def malformed(self, records: DataFrame) -> DataFrame:
        names = records.columns
        rows = self._judged(records, names).select(*names, self._wrong().alias("reason"))
        return rows.where("reason IS NOT NULL")

    def _judged(self, records: DataFrame, names: list[str]) -> DataFrame:
        return DeclaredJson(self.fields, self.rows, self.paths).judged(records, names, deletes=True)

    def _wrong(self) -> Column:
        """The reason why a record is malformed, or null."""
        reason = not_text("key")
        value_reason = F.col(REASON)
        reason = reason.when(~value_reason.isin(*NOT_REJECTED), value_reason)
        for name, type_ in self.fields:
            if type_.kind is Kind.STRING:
                is_long = F.octet_length(f"{FIELDS}.{name}") > MAX_TEXT_BYTES
                long = F.when(is_long, f"{name}: more than {MAX_TEXT_BYTES} bytes")
                reason = F.coalesce(reason, long)
        return reason


def with_row(rows: DataFrame, join: Join, table: DataFrame) -> DataFrame:
    """Adds the column ``join.name``: the row of the table, or null if there is none."""
    newest = F.max_by(FIELDS, F.struct(*_ORDER)).alias(join.name)
    newest_rows = table.groupBy(F.col("key").alias(_KEY)).agg(newest)
    return rows.join(F.broadcast(newest_rows), column(join.on) == F.col(_KEY), "left").drop(_KEY)
