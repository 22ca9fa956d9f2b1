"""The codecs of format protobuf: record bytes are bare messages, or have Confluent's framing."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import orjson

from model.formats.base64url import from_base64url, to_base64url
from model.formats.codec import Codec, SchemaBytes
from model.formats.protobuf.schema import MessageType, ProtobufFile, from_descriptor_set
from model.formats.schemas import CONFLUENT, ConfluentCodec, SchemaSource


class ProtobufCodec(Codec):
    """Records of one message type, without framing. In a URL, a key is its bytes in base64url, or a
    JSON object."""

    name = "protobuf"
    is_document = True
    quotes_numbers = True
    quotes_infinities = True
    json_is_exact = False
    lists_bytes = True
    representation = "protobuf"

    def __init__(self, message: MessageType, definition: str) -> None:
        self.message = message
        self._definition = definition

    def check(self, raw: bytes) -> None:
        self.message.check(raw)

    def to_json(self, raw: bytes) -> bytes:
        return self.message.to_json(raw)

    def from_text(self, text: bytes) -> bytes:
        if text.startswith(b"{"):
            return self._from_json(text)
        raw = from_base64url(text)
        self.check(raw)
        return raw

    def _from_json(self, document: bytes) -> bytes:
        try:
            return self.message.from_json(orjson.loads(document))
        except orjson.JSONDecodeError as e:
            raise ValueError(f"not JSON: {e}") from None

    def is_identified(self, raw: bytes, document: bytes) -> bool:
        try:
            return self._from_json(document) == raw
        except ValueError:
            return False

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        return to_base64url(self.message.from_json(value)), True

    def without_frame(self, raw: bytes) -> SchemaBytes:
        return SchemaBytes(raw, self.message.fingerprint, None)

    @property
    def schema_document(self) -> Any:
        return orjson.loads(self._definition)


class ConfluentProtobufCodec(ConfluentCodec):
    """Records with Confluent's framing. In a URL, a key is its record bytes in base64url."""

    quotes_numbers = True

    def from_text(self, text: bytes) -> bytes:
        raw = from_base64url(text)
        self.check(raw)
        return raw

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        raise ValueError(
            "JSON does not have the schema id that is part of the record: send record bytes"
        )


def definition(message: str, file: ProtobufFile) -> str:
    """The definition of a view's schema: JSON with the message type and the descriptor set."""
    descriptors = base64.b64encode(file.descriptor_set).decode()
    return orjson.dumps({"message": message, "descriptors": descriptors}).decode()


@lru_cache(maxsize=256)
def parsed(definition: str) -> MessageType:
    """The message type of a definition."""
    document = orjson.loads(definition)
    file = from_descriptor_set(base64.b64decode(document["descriptors"]))
    return file.message(document["message"])


def protobuf_codec(schema: str, source: SchemaSource | None) -> Codec:
    """`schema`: from `definition`, or CONFLUENT."""
    if schema == CONFLUENT:
        return ConfluentProtobufCodec("protobuf", source)
    return ProtobufCodec(parsed(schema), schema)
