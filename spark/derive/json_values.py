"""Decodes the values of derived views and of the tables that they join: the declared fields of each
record, or why it has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from model.derive.fields import Paths
from model.expressions.types import Type
from model.rows.json_fields import JsonField, fields_reader
from model.rows.reader import RowRule
from model.rows.row import NoRow
from spark.event_time.bounds import EventTimeBounds
from spark.formats import batches
from spark.formats.batches import Fields, Format, Rules, judged_columns
from spark.formats.key_texts import KeyTexts
from spark.formats.strict_json import spark_type

NOT_REJECTED = ("#deleted", "#no row")
"""Reasons why a value has no fields although it is not malformed: it is a deletion, or it says
nothing about a row."""
DELETED, NO_ROW = NOT_REJECTED


@dataclass(frozen=True, slots=True)
class DeclaredJson:
    """A ``Format``: JSON objects with the declared ``fields``, or with ``rows`` values that have
    such an object as their row. A reason may be one of ``NOT_REJECTED``."""

    fields: tuple[tuple[str, Type], ...]
    rows: RowRule | None = None
    paths: Paths = ()
    fits: ClassVar[bool] = True

    @property
    def columns(self) -> StructType:
        return StructType([StructField(name, spark_type(type_)) for name, type_ in self.fields])

    def bound(self, session: SparkSession) -> DeclaredJson:
        return self

    def decoder(self) -> Callable[[bytes], Fields]:
        paths = dict(self.paths)
        read = fields_reader(
            [JsonField(name, type_, paths.get(name, ())) for name, type_ in self.fields]
        )
        if self.rows is None:
            return read
        row_of = self.rows.json_reader()

        def read_row(value: bytes) -> Fields:
            try:
                row = row_of(value)
            except ValueError as error:
                raise ValueError(f"value: {error}") from None
            if row is None:
                raise ValueError(DELETED)
            if isinstance(row, NoRow):
                raise ValueError(NO_ROW)
            return read(row)

        return read_row

    def judged(
        self,
        records: DataFrame,
        names: list[str],
        *,
        deletes: bool = False,
        event_time: EventTimeBounds | None = None,
        key_fields: tuple[str, ...] = (),
    ) -> DataFrame:
        """The columns ``names`` of all records, and those of ``judged_columns``. ``deletes``:
        whether a null value is a deletion. ``event_time``: bounds of one of the fields.
        ``key_fields``: those of keys that are documents."""
        has_deletions = deletes or (self.rows is not None and self.rows.has_deletions)
        return judged(
            self, records, names, deletes=has_deletions, event_time=event_time,
            key_fields=key_fields,
        )  # fmt: skip


def judged(
    format_: Format,
    records: DataFrame,
    names: list[str],
    *,
    deletes: bool,
    event_time: EventTimeBounds | None,
    key_fields: tuple[str, ...],
) -> DataFrame:
    """As ``DeclaredJson.judged``, for values of any format."""
    key_texts = KeyTexts(key_fields).bound(records.sparkSession) if key_fields else None
    rules = Rules(
        format_, event_time=event_time, null=DELETED if deletes else "value: null",
        key_texts=key_texts,
    )  # fmt: skip
    needed = dict.fromkeys([*names, "value"])
    needed |= {"timestamp": None} if event_time else {}
    needed |= {"key": None} if key_fields else {}
    decode = partial(batches.judged, rules=rules, copied=names)
    before = [records.schema[name] for name in names]
    return records.select(*needed).mapInArrow(decode, StructType([*before, *judged_columns(rules)]))
