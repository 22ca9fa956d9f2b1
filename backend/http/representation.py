"""Representations of a value: JSON, the record's bytes, or Avro."""

from __future__ import annotations

from backend.wire.answer import Header
from model.formats.avro.codecs import AvroCodec, ConfluentCodec
from model.formats.codecs import Codec
from model.views import View

JSON = "json"
OCTETS = "octet-stream"
AVRO = "avro"

VARY: Header = (b"vary", b"accept")


def offered(view: View) -> tuple[str, ...]:
    """The representations of the view's values; the first is the default."""
    if view.is_custom:
        return (JSON,)  # what its class makes of the records
    return (JSON, OCTETS, AVRO) if view.value == "avro" else (JSON, OCTETS)


def represented(kind: str, raw: bytes, codec: Codec) -> tuple[list[Header], bytes]:
    """Headers and body of a value's record bytes as octets or as Avro."""
    content_type = (b"content-type", f"application/{kind}".encode())
    if kind == OCTETS:
        return [content_type, VARY], raw
    assert isinstance(codec, AvroCodec | ConfluentCodec)
    avro = codec.avro(raw)
    headers = [
        content_type,
        VARY,
        (b"schema-fingerprint", avro.schema.fingerprint.encode()),
    ]
    if avro.schema_id is not None:
        headers.append((b"schema-id", b"%d" % avro.schema_id))
    return headers, avro.raw
