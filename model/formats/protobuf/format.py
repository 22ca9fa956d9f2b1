"""Format `protobuf`. The package protobuf is imported when a view has this format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from model.formats.codec import Codec
from model.formats.format import (
    DeclaredField,
    FieldError,
    Origin,
    PythonForm,
    Read,
    References,
    SchemaFormat,
)
from model.formats.schemas import CONFLUENT, SchemaSource
from model.machine.extras import how_to_install

if TYPE_CHECKING:
    from model.formats.protobuf.schema import ProtobufFile


_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)


def _refuse_document(value: Any) -> bytes:
    # producers may write the same message in several ways
    raise ValueError("give the record bytes of the key: Raw(message.SerializeToString())")


def _require_package() -> None:
    """Raises ValueError if the package protobuf is not installed."""
    try:
        is_installed = find_spec("google.protobuf") is not None
    except ModuleNotFoundError:  # there is no package google
        is_installed = False
    if not is_installed:
        raise ValueError(
            "protobuf requires the package protobuf, which is not installed. "
            f"{how_to_install('protobuf')}"
        )


class Protobuf(SchemaFormat):
    name = "protobuf"
    python = PythonForm(to_text=_refuse_document, lists_bytes=True, identifies_key=False)
    fields: ClassVar[Mapping[str, str]] = {
        "schema": 'a file such as "a.desc" (a descriptor set), or "confluent"',
        "message": 'the message type in the descriptor set, such as "shop.Order"',
    }
    media_types = ("application/protobuf", "application/x-protobuf")
    file_suffix = ".desc"
    registry_type = "PROTOBUF"
    registry_form = "serialized"
    declares_fields = True

    def definition(
        self, part: str, fields: Mapping[str, str], read: Read, has_source: bool
    ) -> str | None:
        try:
            _require_package()
        except ValueError as e:
            raise FieldError(part, str(e)) from None
        if fields["message"] and fields["schema"] == CONFLUENT:
            raise FieldError(f"{part}_message", f'not allowed with {part}_schema = "{CONFLUENT}"')
        return super().definition(part, fields, read, has_source)

    def definition_of(self, content: bytes, part: str, fields: Mapping[str, str]) -> str:
        from model.formats.protobuf.codecs import definition

        name = fields["message"]
        file = self.parse_file(content)
        if name not in file.messages:
            types = ", ".join(file.messages[:20])
            raise FieldError(
                f"{part}_message" if name else part,
                f'"{name}" is not a message type of the file; it has: {types}'
                if name
                else f"{part}_message is missing: set a message type of the file; it has: {types}",
            )
        return definition(name, file)

    def declared_fields(
        self, content: bytes, message: str, *, unwrap: bool = False
    ) -> Iterator[DeclaredField]:
        _require_package()
        from model.formats.protobuf.fields import declared_fields

        return declared_fields(content, message, unwrap=unwrap)

    def schema_file(self, text: str, references: References, origin: Origin) -> bytes:
        _require_package()
        from model.formats.protobuf.schema import from_registry, with_origin

        return with_origin(from_registry(text, references).descriptor_set, origin)

    def origin(self, content: bytes) -> Origin | None:
        _require_package()
        from model.formats.protobuf.schema import origin_in

        return origin_in(content)

    def json_fields(self, definition: str) -> Iterator[DeclaredField]:
        if definition == CONFLUENT:
            return iter(())
        from model.formats.protobuf.codecs import parsed
        from model.formats.protobuf.fields import json_fields

        return json_fields(parsed(definition))

    def registered_fields(self, text: str, references: References) -> Iterator[DeclaredField]:
        """Those of the first message in the file. Most producers write records of this message."""
        _require_package()
        from model.formats.protobuf.fields import json_fields
        from model.formats.protobuf.schema import from_registry

        return json_fields(from_registry(text, references).first_message)

    def codec_with(self, definition: str | None, source: SchemaSource | None) -> Codec:
        from model.formats.protobuf.codecs import protobuf_codec

        assert definition is not None
        return protobuf_codec(definition, source)

    def is_routed(self, definition: str | None) -> bool:
        return False

    def fingerprint(self, definition: str) -> str:
        from model.formats.protobuf.codecs import parsed

        return definition if definition == CONFLUENT else parsed(definition).fingerprint

    def is_registry_form(self, text: str) -> bool:
        """False for the text of a .proto file, whose syntax is not that of base64."""
        return _BASE64.fullmatch(text) is not None

    def parse_file(self, content: bytes) -> ProtobufFile:
        from model.formats.protobuf.schema import from_descriptor_set

        return from_descriptor_set(content)

    def parse_registered(self, text: str, references: References) -> ProtobufFile:
        _require_package()
        from model.formats.protobuf.schema import from_registry

        return from_registry(text, references)
