"""Cursors of pages: opaque text with the last key of a page.

    version (1 B) · BLAKE2b of the query and the key (8 B) · the last stored key

A cursor is valid only for the query that it came from (view, kind, order, bounds, times). Another
query would skip entries, so any other cursor is an error. The digest has no secret, so any client
can make a cursor: its key must be within the bounds of the query.
"""

from __future__ import annotations

import hashlib

import orjson

from model.formats.base64url import from_base64url, to_base64url
from model.kinds.layout import Range
from model.problems import BadRequest

_VERSION = b"\x01"
_DIGEST_SIZE = 8
_KEY_OFFSET = 1 + _DIGEST_SIZE

Question = tuple[str | int | bool | None, ...]
"""The parameters that identify a query, in JSON types."""


def encode_cursor(question: Question, key: bytes) -> str:
    raw = _VERSION + _digest(question, key) + key
    return to_base64url(raw).decode()


def decode_cursor(question: Question, text: str, within: Range) -> bytes:
    """The last stored key. Raises BadRequest unless `text` is a cursor of this query, and its key
    is in the range `within` of the query."""
    try:
        raw = from_base64url(text.encode())
    except ValueError:
        raise _invalid() from None
    key = raw[_KEY_OFFSET:]
    if encode_cursor(question, key) != text or not within[0] <= key < within[1]:
        raise _invalid()
    return key


def _digest(question: Question, key: bytes) -> bytes:
    encoded = orjson.dumps(question)
    return hashlib.blake2b(
        len(encoded).to_bytes(4, "big") + encoded + key, digest_size=_DIGEST_SIZE
    ).digest()


def _invalid() -> BadRequest:
    return BadRequest(
        "cursor-invalid",
        "The cursor does not belong to this query. Send the `next` of the previous page with the "
        "same view, bounds and order.",
    )
