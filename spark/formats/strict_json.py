"""Strict JSON in Spark's workers: the columns of declared fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from model.expressions.types import DECIMAL_DIGITS, Kind, Objects, Type, parse_field_type
from model.rows.json_fields import Fields, JsonField, fields_reader

_TYPES: dict[Kind, DataType] = {
    Kind.STRING: StringType(),
    Kind.DOUBLE: DoubleType(),
    Kind.BOOLEAN: BooleanType(),
    Kind.TIME: TimestampType(),
    Kind.STRINGS: ArrayType(StringType(), containsNull=False),
    Kind.LONGS: ArrayType(LongType(), containsNull=False),
    Kind.MAP: MapType(StringType(), StringType(), valueContainsNull=False),
}


def spark_type(type_: Type) -> DataType:
    if type_.kind is Kind.INTEGER:
        return IntegerType() if type_.bits == 32 else LongType()
    if isinstance(type_, Objects):
        members = [StructField(name, spark_type(member)) for name, member in type_.members]
        return ArrayType(StructType(members), containsNull=False)
    if type_.kind is Kind.DECIMAL:
        return DecimalType(DECIMAL_DIGITS, type_.scale)
    return _TYPES[type_.kind]


TYPES: dict[type[DataType], Type] = {
    type(spark_type(type_)): type_
    for type_ in map(parse_field_type, ("string", "boolean", "double", "int", "long", "time"))
}
"""By Spark type: the type of a JSON field."""


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """JSON objects with the fields of ``columns``; see ``JsonDecoder``."""

    columns: StructType
    fits: ClassVar[bool] = True

    def bound(self, session: SparkSession) -> JsonFormat:
        return self

    def decoder(self) -> Callable[[bytes], Fields]:
        return fields_reader(
            [JsonField(f.name, TYPES[type(f.dataType)].or_null(f.nullable)) for f in self.columns]
        )
