"""Format `json`: a JSON document; its exact bytes are the key or value.

Confluent's serializers for JSON Schema (JSON_SR) write a frame with a schema id before the
document. The document is read without the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

import orjson

from model.formats.codec import Codec
from model.formats.format import (
    DeclaredField,
    FieldError,
    Format,
    OpenApi,
    Origin,
    PythonForm,
    Read,
    References,
)
from model.formats.frames import FRAME, schema_id_of
from model.formats.json_text import check_json_text
from model.formats.schema_files.origins import origin_in, with_origin
from model.formats.schemas import CONFLUENT, NO_TEXT, SchemaSource


class JsonCodec(Codec):
    name = "json"
    is_json = True
    is_document = True

    @property
    def probe(self) -> Callable[[bytes], object]:
        return orjson.loads

    def check(self, raw: bytes) -> None:
        check_json_text(raw)

    def to_json(self, raw: bytes) -> bytes:
        return raw


class FramedJsonCodec(Codec):
    """Documents with Confluent's frame."""

    name = "json"
    is_document = True

    def check(self, raw: bytes) -> None:
        schema_id_of(raw)
        check_json_text(raw[FRAME:])

    def to_json(self, raw: bytes) -> bytes:
        return raw[FRAME:]

    def from_text(self, text: bytes) -> bytes:
        raise ValueError(NO_TEXT)


_FRAMED = FramedJsonCodec()


class Json(Format):
    name = "json"
    codec = JsonCodec()
    fields: ClassVar[Mapping[str, str]] = {"schema": '"confluent", if they have its frame'}
    python = PythonForm(identifies_key=False)
    # every byte of the key counts, also spaces, which some programs add and others do not
    openapi = OpenApi("StringSerde", {"type": "string"}, '{"id":1}', json_example=None)
    serdes = frozenset(("StringSerde",))
    has_own_serdes = True
    file_suffix = ".schema.json"
    registry_type = "JSON"
    declares_fields = True
    has_objects = True
    has_nulls = True

    def definition(
        self, part: str, fields: Mapping[str, str], read: Read, has_source: bool
    ) -> str | None:
        if fields["schema"] not in ("", CONFLUENT):
            raise FieldError(
                f"{part}_schema",
                f'JSON is read without a schema: set "{CONFLUENT}" if records have the frame of '
                "Confluent's serializers, or omit it",
            )
        return fields["schema"] or None

    def declared_fields(
        self, content: bytes, message: str, *, unwrap: bool = False
    ) -> Iterator[DeclaredField]:
        """The fields of a JSON Schema."""
        from model.formats.json_schema.fields import declared_fields

        return declared_fields(content, unwrap=unwrap)

    def schema_file(self, text: str, references: References, origin: Origin) -> bytes:
        from model.formats.schema_files.json_schema import self_contained

        return with_origin(self_contained(text, references), origin)

    def origin(self, content: bytes) -> Origin | None:
        return origin_in(content)

    def registered_fields(self, text: str, references: References) -> Iterator[DeclaredField]:
        return self.declared_fields(text.encode(), "")

    def codec_with(self, definition: str | None, source: SchemaSource | None) -> Codec:
        return self.codec if definition is None else _FRAMED

    def is_routed(self, definition: str | None) -> bool:
        return definition is None
