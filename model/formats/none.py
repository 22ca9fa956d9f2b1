"""Format `none`: values that are not stored."""

from __future__ import annotations

from collections.abc import Callable

from model.formats.codec import Codec
from model.formats.format import Format, OpenApi, PythonForm


class NoneCodec(Codec):
    name = "none"
    keeps_bytes = False
    stores_values = False

    @property
    def probe(self) -> Callable[[bytes], object]:
        return len  # all bytes are valid

    def check(self, raw: bytes) -> None:
        pass

    def to_store(self, raw: bytes) -> bytes:
        return b""

    def to_json(self, raw: bytes) -> bytes:
        return b"null"


class NoValue(Format):
    name = "none"
    codec = NoneCodec()
    for_keys = False
    python = PythonForm(to_json=lambda _: b"null", from_json=lambda _: None)
    openapi = OpenApi("VoidSerde")
    serdes = frozenset(("VoidSerde",))
