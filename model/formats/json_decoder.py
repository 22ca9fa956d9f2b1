"""Decodes JSON with exact integers of any size."""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import orjson

from model.formats.json_text import PYTHON_LEVELS, check_json_text, is_deeper, parse_json_text

# maps digits to 0, all other bytes but the minus to a space
_DIGITS = bytes(
    0x30 if 0x30 <= byte <= 0x39 else byte if byte == 0x2D else 0x20 for byte in range(256)
)
# Whole numbers with fewer digits are between -2**63 and 2**64, such as times in ns (19 digits).
_LONG, _LONG_NEGATIVE = b"0" * 20, b"-" + b"0" * 19


def decode_json(text: bytes) -> Any:
    """Returns what json.loads returns, five times as fast. Raises ValueError.

    orjson turns integers of more than 64 bits into floats. Texts that may contain one, and texts
    that orjson rejects, go to the slower parser. Numbers beyond the range of a double are infinite.
    """
    if not may_have_long_integers(text):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
    return _exactly(text.decode(), text)


def decode_body(text: bytes) -> Any:
    """Returns what orjson.loads returns, also for the JSON that it rejects. Raises ValueError with
    the reason."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        check_json_text(text)
    return decode_json(text)


def _exactly(decoded: str, text: bytes) -> Any:
    if is_deeper(text, PYTHON_LEVELS):
        return parse_json_text(text, _GREATEST)
    try:
        return _DECODER.decode(decoded)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer with more digits than Python parses
        return _LENIENT.decode(decoded)


def _refuse(constant: str) -> None:
    raise json.JSONDecodeError(f"{constant} is no JSON number", constant, 0)


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_LENIENT = json.JSONDecoder(parse_constant=_refuse, parse_int=float)
_GREATEST = str(int(sys.float_info.max)).encode()


def may_have_long_integers(text: bytes) -> bool:
    """Whether an integer in the text may have more than 64 bits."""
    digits = text.translate(_DIGITS)
    return _LONG in digits or _LONG_NEGATIVE in digits


def with_long_integers(documents: Sequence[bytes], joined: bytes) -> set[int]:
    """The indexes of the documents in which an integer may have more than 64 bits. `joined`: these
    documents, each after one byte that is not a digit."""
    digits = joined.translate(_DIGITS)
    indexes: set[int] = set()
    ends: list[int] = []
    for long in (_LONG, _LONG_NEGATIVE):
        position = digits.find(long)
        while position >= 0:
            ends = ends or list(accumulate(len(document) + 1 for document in documents))
            index = bisect_right(ends, position)
            indexes.add(index)
            position = digits.find(long, ends[index])
    return indexes
