"""Decodes values whose fields a schema declares: Avro and Protobuf, bare or framed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from model.derive.derivation import ValueSchema
from model.derive.fields import Paths
from model.expressions.types import DECIMAL_DIGITS, Kind, Type
from model.formats.format import ENVELOPE
from model.rows.decoded import decoded_reader
from model.rows.reader import RowRule
from model.rows.row import NoRow
from spark.derive.json_values import DELETED, NO_ROW, DeclaredJson, judged
from spark.errors import JobError
from spark.event_time.bounds import EventTimeBounds
from spark.formats.avro import AvroFormat
from spark.formats.batches import MAX_BYTES, Fields
from spark.formats.protobuf import ProtobufFormat
from spark.formats.registry import Registry
from spark.formats.schema_formats import schema_format
from spark.formats.strict_json import spark_type


@dataclass(frozen=True, slots=True)
class DeclaredRecords:
    """A ``Format``: the ``fields`` of records of a schema, or with ``rows`` of the rows that they
    mean. ``paths``: those of the fields within other records. A reason may be one of
    ``NOT_REJECTED``. If a framed value was written with another schema, it is converted by the
    rules of its format, so a field that the writer did not have gets its default."""

    fields: tuple[tuple[str, Type], ...]
    paths: Paths
    schema: ValueSchema
    rows: RowRule | None = None
    registry: Registry | None = None
    fits: ClassVar[bool] = True

    @property
    def columns(self) -> StructType:
        return StructType([StructField(name, spark_type(type_)) for name, type_ in self.fields])

    def bound(self, session: SparkSession) -> DeclaredRecords:
        """The format with the registry of the deployment. Raises ``JobError`` if it has none, or
        if the schema cannot be used."""
        bound = _format(self).bound(session)
        return replace(self, registry=bound.registry)

    def decoder(self) -> Callable[[bytes], Fields]:
        decode = _format(self).decoder()
        row_of = decoded_reader(self.rows)
        paths = dict(self.paths)
        readers = [
            (name, paths.get(name, (name,)), _converter(name, type_)) for name, type_ in self.fields
        ]

        def read(value: bytes) -> Fields:
            if len(value) > MAX_BYTES:
                raise ValueError(f"value: more than {MAX_BYTES} bytes")
            try:
                row = row_of(decode(value)[_VALUE])
            except ValueError as error:
                raise ValueError(f"value: {error}") from None
            if row is None:
                raise ValueError(DELETED)
            if isinstance(row, NoRow):
                raise ValueError(NO_ROW)
            return {name: convert(_member(row, path)) for name, path, convert in readers}

        return read

    def judged(
        self,
        records: DataFrame,
        names: list[str],
        *,
        deletes: bool = False,
        event_time: EventTimeBounds | None = None,
        key_fields: tuple[str, ...] = (),
    ) -> DataFrame:
        """As ``DeclaredJson.judged``."""
        bound = self.bound(records.sparkSession)
        has_deletions = deletes or (self.rows is not None and self.rows.has_deletions)
        return judged(
            bound, records, names, deletes=has_deletions, event_time=event_time,
            key_fields=key_fields,
        )  # fmt: skip


def declared_values(
    fields: tuple[tuple[str, Type], ...],
    rows: RowRule | None,
    paths: Paths,
    schema: ValueSchema | None,
) -> DeclaredJson | DeclaredRecords:
    """The format of values with these fields."""
    if schema is None:
        return DeclaredJson(fields, rows, paths)
    return DeclaredRecords(fields, paths, schema, rows)


def _format(declared: DeclaredRecords) -> Any:
    schema = declared.schema
    made = schema_format(
        schema.format,
        schema.content,
        message=schema.message,
        is_framed=schema.is_framed,
        column=_VALUE,
        is_partial=True,
    )
    _check_fields(declared, made)
    return replace(made, registry=declared.registry)


def _check_fields(declared: DeclaredRecords, made: AvroFormat | ProtobufFormat) -> None:
    """Raise ``JobError`` if a field has no Spark type."""
    row = made.value_type
    assert isinstance(row, StructType)
    if declared.rows is not None and declared.rows.unwrap and {*row.names} >= ENVELOPE:
        after = row["after"].dataType
        assert isinstance(after, StructType)
        row = after
    paths = dict(declared.paths)
    for name, _ in declared.fields:
        type_: DataType = row
        for member in paths.get(name, (name,)):
            if not isinstance(type_, StructType) or member not in type_.names:
                reasons = made.left_out().values() if isinstance(made, AvroFormat) else ()
                text = "; ".join(reason for reason in reasons if member in reason)
                raise JobError(f"the {declared.schema.format} schema cannot be used: {text}")
            type_ = type_[member].dataType


_VALUE = "value"
"""The column of a whole value, which may be null."""


def _member(record: Any, path: tuple[str, ...]) -> Any:
    """The value at the path; None if it, or a record that leads to it, is null."""
    for name in path:
        if record is None:
            return None
        record = record[name]
    return record


def _converter(name: str, type_: Type) -> Callable[[Any], Any]:
    """A function from a decoded value to one that fits the column. Raises ValueError."""
    if type_.kind is Kind.DOUBLE:

        def finite(value: Any) -> Any:
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name}: {value} is not a number that JSON has")
            return value

        return finite
    if type_.kind is Kind.INTEGER:
        # also of decimals without digits after the point
        return lambda value: None if value is None else int(value)
    if type_.kind is Kind.DECIMAL:
        limit = Decimal(10) ** (DECIMAL_DIGITS - type_.scale)

        def bounded(value: Any) -> Any:
            if value is not None and abs(value) >= limit:
                raise ValueError(f"{name}: more than {DECIMAL_DIGITS} digits")
            return value

        return bounded
    return lambda value: value
