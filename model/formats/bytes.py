"""Format `bytes`: any bytes; base64url in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model.formats.base64url import from_base64url, to_base64url
from model.formats.codec import Codec
from model.formats.format import Format, OpenApi, PythonForm


class BytesCodec(Codec):
    name = "bytes"
    has_prefixes = True
    json_is_exact = False

    @property
    def probe(self) -> Callable[[bytes], object]:
        return len  # all bytes are valid

    def check(self, raw: bytes) -> None:
        pass

    def to_json(self, raw: bytes) -> bytes:
        return b'"' + to_base64url(raw) + b'"'

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        if not isinstance(value, str):
            raise ValueError("not a JSON string, which the format bytes needs: base64url")
        return value.encode(), True


class Bytes(Format):
    name = "bytes"
    codec = BytesCodec()
    python = PythonForm(
        types=(bytes, bytearray),
        to_text=bytes,
        to_json=lambda value: b'"%b"' % to_base64url(value),
        from_json=lambda text: from_base64url(text.encode()),
        from_typed=lambda text: text.encode("utf-8", "surrogateescape"),
        is_typed_text=True,
        has_one_text=True,
        is_ordered=True,
    )
    openapi = OpenApi("ByteArraySerde", {"type": "string"}, "example", "ZXhhbXBsZQ")
    # bytes may be anything
    serdes = frozenset(
        f"{kind}Serde"
        for kind in ("String", "UUID", "Integer", "Long", "Double", "Short", "Float", "Boolean")
    )
    has_own_serdes = True
