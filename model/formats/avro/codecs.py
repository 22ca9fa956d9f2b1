"""The codecs of format avro: record bytes are bare Avro, or have Confluent's framing."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from model.formats.avro.schema import AvroSchema
from model.formats.codec import Codec, SchemaBytes
from model.formats.schemas import CONFLUENT, ConfluentCodec, SchemaSource


class AvroCodec(Codec):
    """Records with one schema, without framing."""

    name = "avro"
    is_document = True
    quotes_numbers = True
    quotes_infinities = True
    lists_bytes = True
    representation = "avro"

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    @property
    def probe(self) -> Callable[[bytes], object]:
        return self.schema.check

    def check(self, raw: bytes) -> None:
        self.schema.check(raw)

    def from_text(self, text: bytes) -> bytes:
        return self.schema.from_json(text)

    def to_json(self, raw: bytes) -> bytes:
        return self.schema.to_json(raw)

    def is_identified(self, raw: bytes, document: bytes) -> bool:
        return self.schema.is_encoding_of(raw, document)

    def without_frame(self, raw: bytes) -> SchemaBytes:
        return SchemaBytes(raw, self.schema.fingerprint, None)

    @property
    def schema_document(self) -> Any:
        return self.schema.definition


@lru_cache(maxsize=256)
def parsed(definition: str) -> AvroSchema:
    """A schema from its JSON."""
    return AvroSchema(definition)


def avro_codec(schema: str, source: SchemaSource | None) -> AvroCodec | ConfluentCodec:
    """`schema`: its JSON, or CONFLUENT."""
    if schema == CONFLUENT:
        return ConfluentCodec("avro", source)
    return AvroCodec(parsed(schema))
