"""Where a page ended, as opaque text: the next one begins behind a key, not at a number.

    version (1 B) · BLAKE2b of the question and the key (8 B) · the last stored key

A cursor goes on with the very question that it came from (view, kind, order, bounds, times): asked
with another it would leave entries out, so that this, like garbage, is refused.
"""

from __future__ import annotations

import hashlib

import orjson

from model.formats.codecs import from_base64url, to_base64url
from model.problems import BadRequest

_VERSION = b"\x01"
_DIGEST_SIZE = 8
_KEY_AT = 1 + _DIGEST_SIZE

Question = tuple[str | int | bool | None, ...]
"""All that makes a question what it is, in JSON's types."""


def encode_cursor(question: Question, key: bytes) -> str:
    raw = _VERSION + _digest(question, key) + key
    return to_base64url(raw).decode()


def decode_cursor(question: Question, text: str) -> bytes:
    """The last stored key; BadRequest unless `text` is a cursor of this question."""
    try:
        raw = from_base64url(text.encode())
    except ValueError:
        raise _invalid() from None
    key = raw[_KEY_AT:]
    if raw[:_KEY_AT] != _VERSION + _digest(question, key) or encode_cursor(question, key) != text:
        raise _invalid()
    return key


def _digest(question: Question, key: bytes) -> bytes:
    asked = orjson.dumps(question)
    return hashlib.blake2b(
        len(asked).to_bytes(4, "big") + asked + key, digest_size=_DIGEST_SIZE
    ).digest()


def _invalid() -> BadRequest:
    return BadRequest(
        "cursor-invalid",
        "The cursor does not belong to this request: send the `next` of the page before, with the "
        "same view, bounds and order.",
    )
