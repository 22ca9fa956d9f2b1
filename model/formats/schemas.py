"""Schemas by id, and the codec of records with Confluent's framing.

RocksDB stores the record bytes unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from model.formats.codec import Codec, SchemaBytes
from model.formats.frames import FRAME, schema_id_of
from model.problems import Unavailable

CONFLUENT = "confluent"
"""Used instead of a schema: each record has the id of its schema."""

NO_TEXT = (
    "text does not have the schema id that is part of the record's key: send the key's record "
    "bytes, with encoding=base64url"
)
"""The error of a request that names a framed key by its text."""


class SchemaNotFound(ValueError):
    """The source says that it has no such schema. It may have the schema later: if the source is
    restored, or if it has started but has not read its own log yet."""


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
        """The missing schema, and the state of its fetch, as text."""
        return f"schema {self.schema_id}: {self._source.state(self.schema_id)}"

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


class Schema(Protocol):
    """A parsed schema of one format."""

    @property
    def format(self) -> str:
        """The name of its format."""

    @property
    def fingerprint(self) -> str: ...

    def check(self, raw: bytes) -> None:
        """Raises ValueError if `to_json` would fail. `raw`: what follows the schema id in a
        frame."""

    def to_json(self, raw: bytes) -> bytes: ...

    def value_of(self, raw: bytes) -> bytes:
        """The bytes of the value in `raw`."""


class SchemaSource(Protocol):
    """A source of schemas by id. Never blocks: the event loop calls it, too."""

    def state(self, schema_id: int) -> str:
        """Why the schema is not available yet, as a text for users."""

    def schema(self, schema_id: int) -> Schema:
        """Raises SchemaNotYet, and ValueError if the schema does not exist or is not supported."""

    def stored_schema(self, schema_id: int) -> Schema:
        """As `schema`, for the id of a record that was ingested. Any other id may be one that a
        client has chosen in a request."""


class NoSchemas:
    """A source without schemas, for a process that only reads views.toml."""

    def state(self, schema_id: int) -> str:
        return "no source of schemas is configured"

    def schema(self, schema_id: int) -> Schema:
        raise SchemaNotYet(schema_id, self)

    def stored_schema(self, schema_id: int) -> Schema:
        raise SchemaNotYet(schema_id, self)


class ConfluentCodec(Codec):
    """Records with Confluent's framing; `source` has their schemas."""

    is_document = True
    quotes_numbers = True
    quotes_infinities = True
    needs_schemas = True

    def __init__(self, name: str, source: SchemaSource | None) -> None:
        """`name`: the format."""
        self.name = name
        self.representation = name
        source = source or NoSchemas()
        self._find, self._find_stored = source.schema, source.stored_schema

    def check(self, raw: bytes) -> None:
        self._check(raw, self._find)

    def check_stored(self, raw: bytes) -> None:
        self._check(raw, self._find_stored)

    def _check(self, raw: bytes, find: Callable[[int], Schema]) -> None:
        schema_id = schema_id_of(raw)
        schema = find(schema_id)
        try:
            self._refuse_other_formats(schema)
            schema.check(raw[FRAME:])
        except ValueError as e:
            raise ValueError(f"schema {schema_id}: {e}") from None

    def from_text(self, text: bytes) -> bytes:
        raise ValueError(NO_TEXT)

    def to_json(self, raw: bytes) -> bytes:
        schema, _ = self._stored_schema(raw)
        return schema.to_json(raw[FRAME:])

    def without_frame(self, raw: bytes) -> SchemaBytes:
        schema, schema_id = self._stored_schema(raw)
        return SchemaBytes(schema.value_of(raw[FRAME:]), schema.fingerprint, schema_id)

    def _stored_schema(self, raw: bytes) -> tuple[Schema, int]:
        """The schema of stored bytes, which was available at ingest."""
        schema_id = int.from_bytes(raw[1:FRAME], "big")
        try:
            schema = self._find_stored(schema_id)
            self._refuse_other_formats(schema)
            return schema, schema_id
        except ValueError as e:
            raise Unavailable("schema-unavailable", f"Schema {schema_id}: {e}") from None

    def _refuse_other_formats(self, schema: Schema) -> None:
        if schema.format != self.name:
            raise ValueError(f"the schema is {schema.format}, not {self.name}")
