"""Joins with tables: with those that never change, and with those whose changes a view follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from model.derive.derivation import Join, ValueSchema
from model.derive.fields import Paths
from model.expressions.types import Kind, Type
from model.rows.reader import RowRule
from spark.derive.columns import text
from spark.derive.decoder import DELETED, ORDER, wrong_key
from spark.derive.json_values import DELETED as DELETED_ROW
from spark.derive.json_values import NO_ROW
from spark.derive.schema_values import declared_values
from spark.event_time.bounds import EventTimeBounds
from spark.formats.batches import FIELDS, KEY_TEXT, REASON
from spark.joins.foreign_keys import NEW, with_tables
from spark.joins.row_text import row_of_text, text_of_row
from spark.joins.shared_keys import newest_of_keys

MAX_TEXT_BYTES = 1000
"""A field of a table can become a key, which must not be too long."""

_KEY = "#key"
# Not the timestamp: compaction keeps the last record of a key in the log.
_ORDER = ("partition", "offset")
_ROW = "#row"

VALUE = "#value"
"""A column of rekeyed rows."""

IS_NEW = "#is new"  # not the name of a field
"""A column of followed rows: whether the key had no row before, so there is nothing to delete."""


@dataclass(frozen=True, slots=True)
class TableDecoder:
    """Decodes records whose key is text, or a document with ``key_fields``, and whose value is a
    JSON object or has a ``schema``, or is null: a tombstone.

    Well-formed rows have ``key``, ``partition``, ``offset`` and a struct ``FIELDS``, which is null
    in a tombstone. Malformed records are ignored.
    """

    fields: tuple[tuple[str, Type], ...]
    rows: RowRule | None = None
    paths: Paths = ()
    schema: ValueSchema | None = None
    key_fields: tuple[str, ...] = ()

    @property
    def event_time(self) -> EventTimeBounds | None:
        return None

    @property
    def is_table(self) -> bool:
        return True

    def well_formed(self, records: DataFrame) -> DataFrame:
        rows = self._judged(records, ["key", *_ORDER]).where(self._wrong().isNull())
        fields = F.when(F.isnull(REASON), F.col(FIELDS))
        key = F.col(KEY_TEXT) if self.key_fields else F.col("key").cast("string")
        return rows.select(key.alias("key"), *_ORDER, fields.alias(FIELDS))

    def malformed(self, records: DataFrame) -> DataFrame:
        names = records.columns
        rows = self._judged(records, names).select(*names, self._wrong().alias("reason"))
        return rows.where("reason IS NOT NULL")

    def _judged(self, records: DataFrame, names: list[str]) -> DataFrame:
        values = declared_values(self.fields, self.rows, self.paths, self.schema)
        rows = values.judged(records, names, deletes=True, key_fields=self.key_fields)
        return rows.where(~F.col(REASON).eqNullSafe(NO_ROW))

    def _wrong(self) -> Column:
        """The reason why a record is malformed, or null."""
        value_reason = F.when(F.col(REASON) != DELETED_ROW, F.col(REASON))
        reason = F.coalesce(wrong_key(self.key_fields), value_reason)
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
    return rows.join(F.broadcast(newest_rows), text(join.on) == F.col(_KEY), "left").drop(_KEY)


def followed(
    rows: DataFrame, key: str, joins: Sequence[Join], tables: Sequence[DataFrame]
) -> DataFrame:
    """The newest row of each ``key`` with its rows of the tables, written again whenever one of
    them changes. ``rows`` has ``ORDER`` and ``DELETED``.

    Returns the columns of ``rows``, which are null in a deleted row except for the key, a struct
    for each join, which is null if there is no row, and ``IS_NEW``.
    """
    schema = StructType([field for field in rows.schema if field.name not in (key, DELETED)])
    left = rows.select(
        F.col(key).cast("string").alias("key"),
        *(F.col(name).alias(of) for name, of in zip(ORDER, _ORDER, strict=True)),
        F.array(*(text(join.on) for join in joins)).alias("on"),
        F.when(~F.col(DELETED), text_of_row(schema)).alias("row"),
    )
    schemas = [table.select(f"{FIELDS}.*").schema for table in tables]
    texts = [_as_text(table, fields) for table, fields in zip(tables, schemas, strict=True)]
    result = with_tables(left, texts)
    row = F.get("rows", F.lit(0))
    joined = [
        row_of_text(F.get("rows", F.lit(number)), fields).alias(join.name)
        for number, (join, fields) in enumerate(zip(joins, schemas, strict=True), 1)
    ]
    return result.select(
        F.col("key").cast(rows.schema[key].dataType).alias(key),
        row.isNull().alias(DELETED),
        (F.col("kind") == NEW).alias(IS_NEW),
        row_of_text(row, schema).alias(_ROW),
        *joined,
    ).select(key, DELETED, IS_NEW, f"`{_ROW}`.*", *(join.name for join in joins))


def rekeyed(rows: DataFrame, key: str, value: Column) -> DataFrame:
    """The newest row of each ``key``, written again whenever it changes. ``rows`` has ``ORDER``,
    ``record_key``, ``record_timestamp`` and ``DELETED``. ``value``: null for rows that the view
    does not have.

    Returns ``key`` and ``VALUE``, which is null if no row has the key any more.
    """
    given = rows.select(
        F.col("record_key").alias("key"),
        *(F.col(name).alias(of) for name, of in zip(ORDER, _ORDER, strict=True)),
        F.col(key).cast("string").alias("on"),
        F.unix_micros("record_timestamp").alias("at"),
        value.alias(VALUE),
    )
    schema = StructType([given.schema[VALUE]])
    text = F.when(F.col(VALUE).isNotNull(), F.to_json(F.struct(VALUE)))
    newest = newest_of_keys(given.select(*given.columns[:-1], text.alias("row")))
    return newest.select(
        F.col("key").cast(rows.schema[key].dataType).alias(key),
        F.from_json("row", schema)[VALUE].alias(VALUE),
    )


def _as_text(table: DataFrame, fields: StructType) -> DataFrame:
    """The rows of a table for ``with_tables``."""
    is_row = F.col(FIELDS).isNotNull().alias(_ROW)
    rows = table.select("key", *_ORDER, is_row, f"{FIELDS}.*")
    return rows.select(F.col("key"), *_ORDER, F.when(F.col(_ROW), text_of_row(fields)).alias("row"))
