"""Decodes JSON values in Spark's workers: the fields of each record, or why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from model.derive.fields import Paths
from model.expressions.types import DECIMAL_DIGITS, AnyScalar, Kind, NumberTime, Type
from model.expressions.values import decimal_of_double
from model.rows.reader import RowReader, RowRule
from model.rows.row import NoRow
from spark.event_time.bounds import EventTimeBounds
from spark.formats.strict_json import ANY, fields_reader

FIELDS = "#fields"
REASON = "#reason"
NOT_REJECTED = ("#deleted", "#no row")
"""Reasons why a value has no fields although it is not malformed: it is a deletion, or it says
nothing about a row."""
_DELETED, NO_ROW = NOT_REJECTED

_TYPES: dict[Kind, DataType] = {
    Kind.STRING: StringType(),
    Kind.DOUBLE: DoubleType(),
    Kind.BOOLEAN: BooleanType(),
    Kind.TIME: TimestampType(),
}


def spark_type(of: Type) -> DataType:
    if of.kind is Kind.INTEGER:
        return IntegerType() if of.bits == 32 else LongType()
    if of.kind is Kind.DECIMAL:
        return DecimalType(DECIMAL_DIGITS, of.scale)
    return _TYPES[of.kind]


@dataclass(frozen=True, slots=True)
class JsonValues:
    """A function of Arrow batches with ``value``, and ``timestamp`` if there is an ``event_time``.

    It returns the columns ``copied``, a struct ``FIELDS`` with ``fields``, and ``REASON``. The
    fields of a malformed value are null. With ``rows``, a reason may be one of ``NOT_REJECTED``.
    """

    fields: tuple[tuple[str, Type], ...]
    event_time: EventTimeBounds | None
    copied: tuple[str, ...]
    rows: RowRule | None = None
    paths: Paths = ()

    @property
    def columns(self) -> list[StructField]:
        """``FIELDS`` and ``REASON``."""
        fields = [StructField(name, spark_type(of)) for name, of in self.fields]
        return [StructField(FIELDS, StructType(fields)), StructField(REASON, StringType())]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = fields_reader(
            StructType([StructField(name, _read_as(of), of.optional) for name, of in self.fields]),
            _units(self.fields),
            dict(self.paths),
        )
        checks = [(name, of) for name, of in self.fields if of.kind in (Kind.INTEGER, Kind.DECIMAL)]
        names = [name for name, _ in self.fields]
        types = [to_arrow_type(spark_type(of), timezone="UTC") for _, of in self.fields]
        nothing = (None,) * len(names)
        bounds = self.event_time
        rule = self.rows
        without_value = _DELETED if rule is not None and rule.has_deletions else "value: null"
        row_of = None if rule is None else rule.json_reader()
        for batch in batches:
            values = batch.column("value").to_pylist()
            # Numbers, because a timestamp may be outside the range of Python's datetime.
            timestamps = (
                batch.column("timestamp").cast(pa.int64()).to_pylist() if bounds else values
            )
            rows: list[tuple[Any, ...]] = []
            reasons: list[str | None] = []
            for value, timestamp in zip(values, timestamps, strict=True):
                reason = without_value if value is None else None
                if row_of is not None and value is not None:
                    value, reason = _row(row_of, value)
                row = nothing
                if reason is None:
                    try:
                        fields = read(value)
                        for name, of in checks:
                            if fields[name] is not None:
                                fields[name] = _checked(name, of, fields[name])
                        if bounds is not None and fields[bounds.field] is not None:
                            reason = bounds.violation(fields[bounds.field], timestamp)
                        if reason is None:
                            row = tuple(fields.values())
                    except ValueError as error:
                        reason = str(error)
                rows.append(row)
                reasons.append(reason)
            columns = zip(*rows, strict=True) if rows else [()] * len(names)
            arrays = [pa.array(of, to) for of, to in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(
                [
                    *(batch.column(name) for name in self.copied),
                    pa.StructArray.from_arrays(arrays, names),
                    pa.array(reasons, pa.string()),
                ],
                names=[*self.copied, FIELDS, REASON],
            )


def _units(fields: tuple[tuple[str, Type], ...]) -> dict[str, str]:
    times = {name: of.unit for name, of in fields if isinstance(of, NumberTime)}
    return times | {name: ANY for name, of in fields if isinstance(of, AnyScalar)}


def _row(row_of: RowReader, value: bytes) -> tuple[bytes, str | None]:
    """The row of a value, or why it has none."""
    try:
        row = row_of(value)
    except ValueError as error:
        return b"", f"value: {error}"
    if row is None:
        return b"", _DELETED
    return (b"", NO_ROW) if isinstance(row, NoRow) else (row, None)


def _read_as(of: Type) -> DataType:
    return DoubleType() if of.kind is Kind.DECIMAL else spark_type(of)


def _checked(name: str, of: Type, number: Any) -> Any:
    """A whole number in its range, or a decimal. Raises ValueError."""
    if of.kind is Kind.INTEGER:
        if not of.low <= number <= of.high:
            raise ValueError(f"{name}: not within {of.low} to {of.high}")
        return number
    try:
        return decimal_of_double(number, of.scale)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
