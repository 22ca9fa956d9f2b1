"""Format `json`: a JSON document; its exact bytes are the key or value."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from model.formats.codec import Codec
from model.formats.format import Format, OpenApi, PythonForm
from model.formats.json_text import check_json_text


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


class Json(Format):
    name = "json"
    codec = JsonCodec()
    python = PythonForm(identifies_key=False)
    # every byte of the key counts, also spaces, which programs add at will
    openapi = OpenApi("StringSerde", {"type": "string"}, '{"id":1}', json_example=None)
    serdes = frozenset(("StringSerde",))
    has_own_serdes = True
    has_objects = True
    has_nulls = True
