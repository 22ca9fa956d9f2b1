"""Format `avro`. fastavro is imported when a view has this format: the client does not need it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from model.formats.codec import Codec
from model.formats.format import DeclaredField, Origin, PythonForm, References, SchemaFormat
from model.formats.schema_files.origins import origin_in, with_origin
from model.formats.schemas import CONFLUENT, SchemaSource

if TYPE_CHECKING:
    from model.formats.avro.schema import AvroSchema

# the types whose keys the proxy encodes
_ROUTED = ("boolean", "int", "long", "float", "double", "string")


class Avro(SchemaFormat):
    name = "avro"
    fields: ClassVar[Mapping[str, str]] = {"schema": 'a file such as "a.avsc", or "confluent"'}
    python = PythonForm(lists_bytes=True)
    media_types = ("application/avro", "avro/binary")
    file_suffix = ".avsc"
    registry_type = "AVRO"
    declares_fields = True

    def definition_of(self, content: bytes, part: str, fields: Mapping[str, str]) -> str:
        """The schema's JSON without whitespace."""
        return orjson.dumps(self.parse_file(content).definition).decode()

    def declared_fields(
        self, content: bytes, message: str, *, unwrap: bool = False
    ) -> Iterator[DeclaredField]:
        from model.formats.avro.fields import declared_fields

        return declared_fields(content, unwrap=unwrap)

    def schema_file(self, text: str, references: References, origin: Origin) -> bytes:
        from model.formats.schema_files.avro import self_contained

        return with_origin(self_contained(text, [used for _, used in references]), origin)

    def origin(self, content: bytes) -> Origin | None:
        return origin_in(content)

    def json_fields(self, definition: str) -> Iterator[DeclaredField]:
        if definition == CONFLUENT:
            return iter(())
        from model.formats.avro.fields import json_fields

        return json_fields(definition)

    def registered_fields(self, text: str, references: References) -> Iterator[DeclaredField]:
        from model.formats.avro.fields import json_fields

        return json_fields(text, tuple(used for _, used in references))

    def codec_with(self, definition: str | None, source: SchemaSource | None) -> Codec:
        from model.formats.avro.codecs import avro_codec

        assert definition is not None
        return avro_codec(definition, source)

    def is_routed(self, definition: str | None) -> bool:
        if definition is None or definition == CONFLUENT:
            return False
        schema: Any = orjson.loads(definition)
        if isinstance(schema, dict):
            # the text of other logical types is not that of their base type
            if "logicalType" in schema and schema["type"] != "string":
                return False
            schema = schema["type"]
        return schema in _ROUTED

    def fingerprint(self, definition: str) -> str:
        from model.formats.avro.codecs import parsed

        return definition if definition == CONFLUENT else parsed(definition).fingerprint

    def parse_file(self, content: bytes) -> AvroSchema:
        from model.formats.avro.schema import AvroSchema

        return AvroSchema(content)

    def parse_registered(self, text: str, references: References) -> AvroSchema:
        from model.formats.avro.schema import AvroSchema

        return AvroSchema(text, tuple(used for _, used in references))
