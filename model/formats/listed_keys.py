"""Keys that are listed with their record bytes, as `{"@base64url":"…"}`.

In some formats, several record keys have the same JSON document: the many NaNs of float64; Avro
with a map in several blocks, or a number with more bytes than it needs; Protobuf with unknown
fields. The document means only one of these keys: the key that our own encoder writes. If another
key were listed by this document, a request with it would read a different key, or none. So the
other keys are listed by their bytes. The document with the bytes means them, in URLs and in bodies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from model.formats.base64url import from_base64url, to_base64url
from model.formats.codec import Codec, SchemaBytes

_START = b'{"@base64url":'
_DOCUMENT = re.compile(rb'\{"@base64url":"([A-Za-z0-9_-]*)"\}')


def by_bytes(raw: bytes) -> bytes:
    """The JSON document that names a key by its record bytes."""
    return b'{"@base64url":"%b"}' % to_base64url(raw)


def bytes_in(document: Any) -> bytes | None:
    """The record bytes in a parsed document of `by_bytes`; None for any other document."""
    if not isinstance(document, dict) or len(document) != 1:
        return None
    text = document.get("@base64url")
    if not isinstance(text, str):
        return None
    try:
        return from_base64url(text.encode())
    except ValueError:
        return None


def codec_of_keys(codec: Codec) -> Codec:
    """The codec for keys of this format."""
    return ListedKeys(codec) if codec.lists_bytes else codec


class ListedKeys(Codec):
    """A codec of keys, whose JSON documents identify the keys."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.name = codec.name
        self.size = codec.size
        self.keeps_bytes = codec.keeps_bytes
        self.is_number = codec.is_number
        self.is_document = codec.is_document
        self.has_prefixes = codec.has_prefixes
        self.json_is_exact = codec.json_is_exact
        # direct references, which save a call for each record
        self.to_store, self.from_store = codec.to_store, codec.from_store  # type: ignore[method-assign]
        self.check = codec.check  # type: ignore[method-assign]

    @property
    def probe(self) -> Callable[[bytes], object]:
        return self._codec.probe

    def check(self, raw: bytes) -> None:
        self._codec.check(raw)

    def to_json(self, raw: bytes) -> bytes:
        document = self._codec.to_json(raw)
        return document if self._codec.is_identified(raw, document) else by_bytes(raw)

    def from_text(self, text: bytes) -> bytes:
        if text.startswith(_START) and (raw := self._listed_by_bytes(text)) is not None:
            return raw
        return self._codec.from_text(text)

    def other_key(self, raw: bytes) -> bytes | None:
        return self._codec.other_key(raw)

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        raw = bytes_in(value)
        if raw is not None and self._listed_by_bytes(by_bytes(raw)) is not None:
            return to_base64url(raw), True
        return self._codec.json_to_text(value, written)

    def without_frame(self, raw: bytes) -> SchemaBytes:
        return self._codec.without_frame(raw)

    @property
    def schema_document(self) -> Any:
        return self._codec.schema_document

    def _listed_by_bytes(self, text: bytes) -> bytes | None:
        """The record bytes in the text; None if the text is not the document of a key that is
        listed by its bytes. For example, a schema may have a field with the name `@base64url`."""
        match = _DOCUMENT.fullmatch(text)
        if match is None:
            return None
        try:
            raw = from_base64url(match[1])
            self._codec.check(raw)
            is_identified = self._codec.is_identified(raw, self._codec.to_json(raw))
        except ValueError:
            return None
        return None if is_identified else raw
