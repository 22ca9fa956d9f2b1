"""JSON in which every whole number is exact, whatever its size."""

from __future__ import annotations

import json
from typing import Any

import orjson

# maps digits to 0, all other bytes to a space
_DIGITS = bytes(0x30 if chr(byte).isdigit() and byte < 128 else 0x20 for byte in range(256))
# whole numbers with fewer digits have at most 64 bits
_LONG = b"0" * 19


def decode_json(text: bytes) -> Any:
    """What json.loads returns, five times as fast; ValueError.

    orjson turns whole numbers of more than 64 bits into floats. Texts that may have one, and those
    that orjson rejects, are left to the slower parser.
    """
    if _LONG not in text.translate(_DIGITS):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
    return json.loads(text)
