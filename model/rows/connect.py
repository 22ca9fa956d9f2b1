"""The JSON of Kafka Connect's JsonConverter, with a schema or without.

With `schemas.enable=true`, its default, a document is `{"schema": …, "payload": …}`.
"""

from __future__ import annotations

from model.rows.json_members import members

MEMBERS = frozenset(("schema", "payload"))
_NULL = b"null"


def payload(document: bytes) -> bytes:
    """The document without the schema. `document`: valid JSON."""
    if b'"payload"' not in document:
        return document.strip()
    parts = members(document)
    return parts["payload"] if parts.keys() == MEMBERS else document.strip()


def is_null(document: bytes) -> bool:
    """Whether the document or its payload is null. False for bytes that are not JSON."""
    end = document.rstrip(b" \t\r\n}")
    if not end.endswith(_NULL):
        return False
    try:
        return payload(document) == _NULL
    except (ValueError, IndexError):
        return False
