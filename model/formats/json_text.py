"""JSON texts, as RFC 8259 defines them.

orjson refuses two kinds of JSON: half of a surrogate pair, which JavaScript writes for a text that
was cut within an emoji (`"\\ud83d"`), and numbers beyond the range of a double, which Java's
BigDecimal has. Everything else that it refuses is not JSON, or has too many levels.
"""

from __future__ import annotations

import math
import re
from typing import Any

import orjson

MAX_LEVELS = 1024
"""The depth up to which orjson parses."""

PYTHON_LEVELS = 750
"""The depth up to which Python's own parser is used. Its limit depends on Python's version (3.11:
1,000 minus the depth of the call stack; later: more), but answers must not depend on it."""

_ESCAPE = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.",
    re.DOTALL,
)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# A string without a closing quote extends to the end of the document. Otherwise, a search from each
# of its quotes would take quadratic time.
_TEXT_OR_NUMBER = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)'
    rb"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?",
    re.DOTALL,
)
_DIGITS = 308  # a whole number of up to 308 digits is within the range of a double
_GREAT_NUMBER = re.compile(rb"[0-9][eE]|[0-9]{%d}" % _DIGITS)
_REPLACEMENT = rb"\ufffd"
_TOO_DEEP = "not JSON: depth limit exceeded: more than {:,} levels"
_TEXT_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)


def check_json_text(text: bytes) -> None:
    """Raise ValueError with the reason, unless the text is JSON of up to MAX_LEVELS levels."""
    parse_json_text(text, b"0")


def check_levels(text: bytes, max_levels: int) -> None:
    """Raise ValueError if arrays and objects are nested more than `max_levels` deep. The text need
    not be JSON."""
    if is_deeper(text, max_levels):
        raise ValueError(_TOO_DEEP.format(max_levels))


def is_deeper(text: bytes, levels: int) -> bool:
    """Whether arrays and objects are nested more than `levels` deep."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    level = 0
    for match in _TEXT_OR_BRACKET.finditer(text):
        if match[0] in (b"[", b"{"):
            level += 1
            if level > levels:
                return True
        elif match[0] in (b"]", b"}"):
            level -= 1
    return False


def parse_json_text(text: bytes, beyond_double: bytes) -> Any:
    """Returns what orjson.loads returns, for all of JSON. Raises ValueError with the reason.

    Half of a surrogate pair becomes U+FFFD, as in JavaScript's toWellFormed and in Go.
    `beyond_double`: the JSON that replaces a number beyond the range of a double. If it is a
    number, it gets the sign of the replaced one.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        refused = error
    accepted = text
    for change in (_without_halves, _without_great_numbers):
        changed = change(accepted, beyond_double)
        if changed != accepted:
            accepted = changed
            try:
                return orjson.loads(accepted)
            except orjson.JSONDecodeError as error:
                refused = error
    raise ValueError(_reason(text, refused))


# Neither of these changes makes invalid JSON valid, or moves the position of an error.


def _without_halves(text: bytes, _: bytes) -> bytes:
    # only strings have escapes
    return _ESCAPE.sub(_whole, text) if _SURROGATE.search(text) else text


def _whole(escape: re.Match[bytes]) -> bytes:
    """A pair or another escape unchanged; half of a pair is replaced."""
    return _REPLACEMENT if escape[1] is None and _SURROGATE.match(escape[0]) else escape[0]


def _without_great_numbers(text: bytes, beyond_double: bytes) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        part = match[0]
        if part[:1] == b'"' or not _is_beyond_double(part):
            return part
        sign = b"-" if part[:1] == b"-" and beyond_double.isdigit() else b""
        return sign + beyond_double.ljust(len(part) - len(sign))

    return _TEXT_OR_NUMBER.sub(replace, text) if _GREAT_NUMBER.search(text) else text


def _is_beyond_double(number: bytes) -> bool:
    if len(number) <= _DIGITS and b"e" not in number and b"E" not in number:
        return False
    return math.isinf(float(number))


def _reason(text: bytes, error: Exception) -> str:
    try:
        text.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    if text.startswith(b"\xef\xbb\xbf"):
        return "not JSON: a byte order mark, which RFC 8259 forbids, is before the document"
    if "depth limit" in str(error):
        return _TOO_DEEP.format(MAX_LEVELS)
    return f"not JSON: {error}"
