"""Representations of a value: JSON, the record's bytes, or its bytes without a frame."""

from __future__ import annotations

from backend.queries.routing import OCTETS
from backend.wire.answer import Header
from model.formats.codec import Codec
from model.views import View

JSON = "json"

VARY: Header = (b"vary", b"accept")

RECORD_VALUES = b"application/vnd.queryable.record-values+json"
"""Between instances: a page of a history, each value the base64url text of its record bytes."""


def offered(view: View) -> tuple[str, ...]:
    """The representations of the view's values; the first is the default."""
    if view.is_custom:
        return (JSON,)  # what its class makes of the records
    own = view.value_codec.representation
    return (JSON, OCTETS) if own is None else (JSON, OCTETS, own)


def represented(kind: str, raw: bytes, codec: Codec) -> tuple[list[Header], bytes]:
    """Headers and body of a value's record bytes as octets, or as the codec's representation."""
    content_type = (b"content-type", f"application/{kind}".encode())
    if kind == OCTETS:
        return [content_type, VARY], raw
    value = codec.without_frame(raw)
    headers = [
        content_type,
        VARY,
        (b"schema-fingerprint", value.fingerprint.encode()),
    ]
    if value.schema_id is not None:
        headers.append((b"schema-id", b"%d" % value.schema_id))
    return headers, value.raw
