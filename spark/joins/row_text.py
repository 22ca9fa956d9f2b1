"""Rows as JSON text and back, so that the state of a view needs no schema of its own."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark.formats.columns import column_named

# By default, Spark writes milliseconds. It reads any number of digits.
_MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def text_of_row(schema: StructType) -> Column:
    """The columns of the schema as one text."""
    types = [field.dataType for field in schema if not isinstance(field.dataType, TimestampType)]
    return F.to_json(F.struct(*(_in_json(field) for field in schema)), json_options(types))


def row_of_text(text: Column, schema: StructType) -> Column:
    """The reverse of ``text_of_row``: a struct, which is null if the text is null."""
    times = [field.name for field in schema if isinstance(field.dataType, TimestampType)]
    numbers = StructType(
        [
            StructField(field.name, LongType() if field.name in times else field.dataType)
            for field in schema
        ]
    )
    row = F.from_json(text, numbers)
    fields = [
        (F.timestamp_micros(row[name]) if name in times else row[name]).alias(name)
        for name in schema.names
    ]
    return F.when(text.isNotNull(), F.struct(*fields))


def json_options(types: Sequence[DataType]) -> dict[str, str] | None:
    """Spark's options for writing values of these types as JSON. Without times, there are none, as
    in earlier checkpoints: None, because Spark Connect refuses an empty dict."""
    return _MICROSECONDS if any(map(_has_time, types)) else None


def _has_time(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_has_time(field.dataType) for field in data_type)
    if isinstance(data_type, ArrayType):
        return _has_time(data_type.elementType)
    if isinstance(data_type, MapType):
        return _has_time(data_type.keyType) or _has_time(data_type.valueType)
    return isinstance(data_type, TimestampType | TimestampNTZType)


def _in_json(field: StructField) -> Column:
    """The column for JSON. A timestamp becomes a number: JSON has none, and Python's range is
    smaller."""
    column = column_named(field.name)
    is_time = isinstance(field.dataType, TimestampType)
    return (F.unix_micros(column) if is_time else column).alias(field.name)
