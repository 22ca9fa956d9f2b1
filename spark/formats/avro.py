"""Avro: records as columns. Bare, or framed as Confluent's serializers do.

| Avro | Spark |
|---|---|
| boolean, int, long, float, double, string | the same |
| bytes, fixed | binary |
| enum, uuid | string |
| record; array; map | struct; array; map |
| null and one other type | the other type, null allowed |
| date; timestamp-millis, -micros | date; timestamp |
| local-timestamp-millis, -micros | timestamp_ntz |
| decimal | decimal |
| other logical types | the type that they are based on |

Other unions, and schemas that refer to themselves, have no Spark type and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from model.formats.avro.format import Avro
from spark.errors import JobError
from spark.formats.avro_reader import AvroReader, reader_of
from spark.formats.batches import Fields
from spark.formats.registry import Registry, frame, framed_decoder, registry_of


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Avro records with the fields of ``schema``, an Avro schema as JSON.

    Records are bare Avro of exactly this schema. With ``is_framed``, each record names the schema
    that it was written with, as Confluent's serializers do; it is converted to ``schema`` by Avro's
    rules: fields that the writer did not have get their defaults. Schemas come from the registry
    in [schemas] of views.toml, or from ``registry``. A record whose schema does not exist, or
    cannot be converted, is malformed.

    A schema that is not a record has one column, ``column``. A record has a column for each field,
    or with ``column`` one struct. ``is_partial``: fields that have no Spark type are left out.
    """

    schema: str
    is_framed: bool = False
    column: str | None = None
    is_partial: bool = False
    registry: Registry | None = None
    fits: ClassVar[bool] = False

    @property
    def value_type(self) -> DataType:
        """The type of a whole value. Raises ``JobError`` if the schema is malformed or has no
        type."""
        return self._reader().type

    @property
    def columns(self) -> StructType:
        reader = self._reader()
        if isinstance(reader.type, StructType) and reader.is_record and self.column is None:
            return reader.type
        return StructType([StructField(self.column or "value", reader.type)])

    def bound(self, session: SparkSession) -> AvroFormat:
        if not self.is_framed or self.registry is not None:
            return self
        return replace(self, registry=registry_of(session))

    def decoder(self) -> Callable[[bytes], Fields]:
        reader = reader_of(self.schema, self.is_partial)
        name = ("avro", self.schema, self.is_partial)
        decode = (
            framed_decoder(self.registry, name, reader.written_with)
            if self.is_framed
            else reader.decode
        )
        if reader.is_record and self.column is None:
            return decode
        column = self.column or "value"
        return lambda raw: {column: decode(raw)}

    def left_out(self) -> Mapping[str, str]:
        """The paths of fields that are left out, with the reasons."""
        return self._reader().left_out

    def encoder(self) -> Callable[[Any], bytes]:
        return reader_of(self.schema).encode

    def registered(self, registry: Registry, subject: str) -> bytes:
        """Registers the schema. Returns what precedes a framed record: a zero byte and the schema's
        id."""
        return frame(registry, subject, Avro(), self.schema)

    def _reader(self) -> AvroReader:
        try:
            return reader_of(self.schema, self.is_partial)
        except ValueError as error:
            raise JobError(f"the Avro schema cannot be used: {error}") from None
