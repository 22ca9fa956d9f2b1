"""The codecs of format avro: record bytes are bare Avro, or framed as Confluent's serializers do.

Framed: a zero byte, the schema's id (4 B, big-endian), then Avro. RocksDB has the record's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

from model.formats.avro.schema import AvroSchema
from model.problems import Unavailable

CONFLUENT = "confluent"
"""In place of a schema: each record names its own."""

_FRAME = 5


class SchemaNotYet(Unavailable):
    """A schema that cannot be had now, and may be later: a record that needs it has to wait."""

    def __init__(self, schema_id: int, source: SchemaSource) -> None:
        super().__init__("schema-unavailable", f"Schema {schema_id} is not known here yet.")
        self.schema_id = schema_id
        self._source = source

    @property
    def state(self) -> str:
        """What it waits for, as it stands now."""
        return f"schema {self.schema_id}: {self._source.state}"

    @property
    def over(self) -> bool:
        """Whether to try again; what is not there yet is asked for once more."""
        try:
            self._source.schema(self.schema_id)
        except SchemaNotYet:
            return False
        except ValueError:
            pass
        return True


class SchemaSource(Protocol):
    """Where schemas are had by id. Never waits: called from the event loop, too."""

    @property
    def state(self) -> str:
        """How it stands with what is asked for, for a person."""

    def schema(self, schema_id: int) -> AvroSchema:
        """SchemaNotYet; ValueError where there is no such schema, or none that can be served."""


@dataclass(frozen=True)
class AvroBytes:
    """A value's bare Avro, and what it is to be read by."""

    raw: bytes
    schema: AvroSchema
    schema_id: int | None


class AvroCodec:
    """Records of one schema, without a frame."""

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
    """Records with a frame; `source` is where their schemas are."""

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
                "not framed as Confluent's: a zero byte and 4 bytes of the schema's id"
            )
        schema_id = int.from_bytes(raw[1:_FRAME], "big")
        schema = self._schema(schema_id)
        try:
            schema.check(raw[_FRAME:])
        except ValueError as e:
            raise ValueError(f"of schema {schema_id}, and {e}") from None

    def to_store(self, raw: bytes) -> bytes:
        return raw

    def from_store(self, stored: bytes) -> bytes:
        return stored

    def from_text(self, text: bytes) -> bytes:
        raise ValueError(
            "text, which does not say the id of the schema that the record's key is framed with: "
            "give the key's record bytes, with encoding=base64url"
        )

    def to_json(self, raw: bytes) -> bytes:
        avro = self.avro(raw)
        return avro.schema.to_json(avro.raw)

    def avro(self, raw: bytes) -> AvroBytes:
        """Of stored bytes, whose schema was there when they came."""
        schema_id = int.from_bytes(raw[1:_FRAME], "big")
        try:
            return AvroBytes(raw[_FRAME:], self._schema(schema_id), schema_id)
        except ValueError as e:
            raise Unavailable("schema-unavailable", f"Schema {schema_id}: {e}") from None


class NoSchemas:
    """Stands where nobody has said where schemas are: a process that only looks at views.toml."""

    state = "no source of schemas is there"

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
