"""The codecs of format avro: record bytes are bare Avro, or have Confluent's framing.

Confluent's framing: a zero byte, the schema id (4 B, big-endian), then Avro. RocksDB stores the
record bytes unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

from model.formats.avro.schema import AvroSchema
from model.problems import Unavailable

CONFLUENT = "confluent"
"""Used instead of a schema: each record has the id of its schema."""

_FRAME = 5


class SchemaNotYet(Unavailable):
    """A schema is not available yet: records that need it have to wait."""

    def __init__(self, schema_id: int, source: SchemaSource) -> None:
        super().__init__(
            "schema-unavailable",
            f"Schema {schema_id} has not been fetched yet. Retry, or accept "
            f"application/octet-stream, which needs no schema.",
        )
        self.schema_id = schema_id
        self._source = source

    @property
    def state(self) -> str:
        """What it waits for, and the state of the fetch."""
        return f"schema {self.schema_id}: {self._source.state}"

    @property
    def over(self) -> bool:
        """Whether to try again; requests the schema again if it is still missing."""
        try:
            self._source.schema(self.schema_id)
        except SchemaNotYet:
            return False
        except ValueError:
            pass
        return True


class SchemaSource(Protocol):
    """A source of schemas by id. Never blocks: the event loop calls it, too."""

    @property
    def state(self) -> str:
        """The state of pending fetches, for people."""

    def schema(self, schema_id: int) -> AvroSchema:
        """SchemaNotYet; ValueError if the schema does not exist or is not supported."""


@dataclass(frozen=True)
class AvroBytes:
    """A value in bare Avro, and its schema."""

    raw: bytes
    schema: AvroSchema
    schema_id: int | None


class AvroCodec:
    """Records with one schema, without framing."""

    name: ClassVar[str] = "avro"
    size: ClassVar[int | None] = None
    keeps_bytes: ClassVar[bool] = True

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    @property
    def probe(self) -> Callable[[bytes], object]:
        return self.schema.check

    def check(self, raw: bytes) -> None:
        self.schema.check(raw)

    def to_store(self, raw: bytes) -> bytes:
        return raw

    def from_store(self, stored: bytes) -> bytes:
        return stored

    def from_text(self, text: bytes) -> bytes:
        return self.schema.from_json(text)

    def to_json(self, raw: bytes) -> bytes:
        return self.schema.to_json(raw)

    def avro(self, raw: bytes) -> AvroBytes:
        return AvroBytes(raw, self.schema, None)


class ConfluentCodec:
    """Records with Confluent's framing; `source` has their schemas."""

    name: ClassVar[str] = "avro"
    size: ClassVar[int | None] = None
    keeps_bytes: ClassVar[bool] = True

    def __init__(self, source: SchemaSource) -> None:
        self._schema = source.schema

    @property
    def probe(self) -> Callable[[bytes], object]:
        return self.check

    def check(self, raw: bytes) -> None:
        if len(raw) < _FRAME or raw[0]:
            raise ValueError(
                "without Confluent's framing: a zero byte and 4 bytes with the schema id"
            )
        schema_id = int.from_bytes(raw[1:_FRAME], "big")
        schema = self._schema(schema_id)
        try:
            schema.check(raw[_FRAME:])
        except ValueError as e:
            raise ValueError(f"schema {schema_id}: {e}") from None

    def to_store(self, raw: bytes) -> bytes:
        return raw

    def from_store(self, stored: bytes) -> bytes:
        return stored

    def from_text(self, text: bytes) -> bytes:
        raise ValueError(
            "text does not have the schema id that is part of the record's key: send the key's "
            "record bytes, with encoding=base64url"
        )

    def to_json(self, raw: bytes) -> bytes:
        avro = self.avro(raw)
        return avro.schema.to_json(avro.raw)

    def avro(self, raw: bytes) -> AvroBytes:
        """The Avro value in stored bytes; their schema was available at ingest."""
        schema_id = int.from_bytes(raw[1:_FRAME], "big")
        try:
            return AvroBytes(raw[_FRAME:], self._schema(schema_id), schema_id)
        except ValueError as e:
            raise Unavailable("schema-unavailable", f"Schema {schema_id}: {e}") from None


class NoSchemas:
    """A source without schemas, for a process that only reads views.toml."""

    state = "no source of schemas is configured"

    def schema(self, schema_id: int) -> AvroSchema:
        raise SchemaNotYet(schema_id, self)


@lru_cache(maxsize=256)
def _parsed(definition: str) -> AvroSchema:
    return AvroSchema(definition)


def avro_codec(schema: str, source: SchemaSource | None) -> AvroCodec | ConfluentCodec:
    """`schema`: its JSON, or CONFLUENT."""
    if schema == CONFLUENT:
        return ConfluentCodec(source or NoSchemas())
    return AvroCodec(_parsed(schema))
