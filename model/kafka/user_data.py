"""The user data of Kafka's group protocol: compressed JSON."""

from __future__ import annotations

import zlib
from typing import Any, Final

import orjson

MAX_DOCUMENT_BYTES: Final = 128 << 20
"""2,000 instances with 20,000 partitions take less than 1 MB before they are compressed."""

MALFORMED: Final = (zlib.error, ValueError, KeyError, TypeError, AttributeError)
"""The exceptions that reading malformed user data raises."""


def pack(document: dict[str, Any]) -> bytes:
    return zlib.compress(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))


def unpack(user_data: bytes) -> Any:
    """The inverse of `pack`. Raises zlib.error or ValueError if `user_data` is malformed, or has
    more than MAX_DOCUMENT_BYTES."""
    decompressor = zlib.decompressobj()
    document = decompressor.decompress(user_data, MAX_DOCUMENT_BYTES)
    if not decompressor.eof:
        raise ValueError("it is incomplete or too large")
    return orjson.loads(document)
