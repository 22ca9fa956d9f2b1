"""Format `string`: UTF-8 text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from model.expressions.types import Kind
from model.formats.codec import Codec
from model.formats.format import Format, OpenApi, PythonForm, document, identity


class StringCodec(Codec):
    name = "string"
    is_text = True
    has_prefixes = True
    json_is_exact = False

    @property
    def probe(self) -> Callable[[bytes], object]:
        return bytes.decode

    def check(self, raw: bytes) -> None:
        try:
            raw.decode()
        except UnicodeDecodeError as e:
            raise ValueError(f"not UTF-8 text: {e.reason} at byte {e.start}") from None

    def to_json(self, raw: bytes) -> bytes:
        return orjson.dumps(raw.decode())

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        if not isinstance(value, str):
            raise ValueError("not a JSON string, which the format string needs")
        return value.encode(), False


def _document(value: str) -> bytes:
    """The text as JSON. Raises ValueError for half of a surrogate pair, which JSON has and UTF-8
    does not have."""
    value.encode()
    return document(value)


class String(Format):
    name = "string"
    codec = StringCodec()
    python = PythonForm(
        types=(str,),
        to_text=str.encode,
        to_json=_document,
        from_typed=identity,
        is_typed_text=True,
        has_one_text=True,
        is_ordered=True,
    )
    openapi = OpenApi("StringSerde", {"type": "string"}, "example")
    serdes = frozenset(("StringSerde",))
    derived = frozenset((Kind.STRING,))
