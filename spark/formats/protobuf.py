"""Protobuf: messages as columns. Bare, or framed as Confluent's serializers do.

| Protobuf | Spark |
|---|---|
| int32, sint32, sfixed32; int64, sint64, sfixed64 | int; long |
| uint32, fixed32; uint64, fixed64 | long; decimal(20,0) |
| float, double, bool, string, bytes | the same, bytes as binary |
| enum | string: its name, or the number if it has none |
| message; repeated; map | struct; array; map |
| Timestamp, Duration | timestamp, interval day to second |
| wrappers, such as Int32Value | the type that they wrap |
| Any, Struct, Value, ListValue, FieldMask | string: their JSON |
| messages without fields, or within themselves | string: their JSON |

Fields with presence (``optional``, messages, members of a oneof) are null if they are not set. All
others have their default value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from model.formats.protobuf.format import Protobuf
from model.formats.protobuf.schema import from_descriptor_set
from spark.errors import JobError
from spark.formats.batches import Fields
from spark.formats.protobuf_reader import ProtobufReader, reader_of
from spark.formats.registry import Registry, frame, framed_decoder, registry_of


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """Messages of the type ``message``, such as ``shop.Order``.

    ``descriptor_set``: what ``protoc --include_imports --descriptor_set_out`` writes. With
    ``is_framed``, each record names its schema and its message type, as with Confluent's
    serializers. A record of another message type is malformed. So is one whose schema does not
    exist in the registry: the one in [schemas] of views.toml, or ``registry``.

    A message has a column for each field, or with ``column`` one struct.
    """

    descriptor_set: bytes = field(repr=False)
    message: str
    is_framed: bool = False
    column: str | None = None
    registry: Registry | None = None
    fits: ClassVar[bool] = False

    @property
    def value_type(self) -> DataType:
        """The type of a whole value. Raises ``JobError`` if there is no such message type."""
        return self._reader().type

    @property
    def columns(self) -> StructType:
        if self.column is None:
            return self._reader().type
        return StructType([StructField(self.column, self.value_type)])

    def bound(self, session: SparkSession) -> ProtobufFormat:
        if not self.is_framed or self.registry is not None:
            return self
        return replace(self, registry=registry_of(session))

    def decoder(self) -> Callable[[bytes], Fields]:
        reader = reader_of(self.descriptor_set, self.message)
        decode: Callable[[bytes], Fields] = reader.decode
        if self.is_framed:
            name = ("protobuf", self.descriptor_set, self.message)
            decode = framed_decoder(self.registry, name, reader.written_with)
        column = self.column
        return decode if column is None else lambda raw: {column: decode(raw)}

    def encoder(self) -> Callable[[Any], bytes]:
        return reader_of(self.descriptor_set, self.message).encode

    def registered(self, registry: Registry, subject: str) -> bytes:
        """Registers the schema, which is the last file of the descriptor set. Returns what precedes
        a framed message: a zero byte, the schema's id and the path of the message type."""
        file = from_descriptor_set(self.descriptor_set)
        try:
            text, path = file.registration(), file.indexes(self.message)
        except ValueError as error:
            raise JobError(f"the schema of {subject} cannot be registered: {error}") from None
        return frame(registry, subject, Protobuf(), text) + path

    def _reader(self) -> ProtobufReader:
        try:
            return reader_of(self.descriptor_set, self.message)
        except ValueError as error:
            raise JobError(f"the Protobuf schema cannot be used: {error}") from None
