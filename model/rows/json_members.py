"""Finds the members of a JSON object in its text, so that their bytes stay as they are."""

from __future__ import annotations

import re

import orjson

_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]} \t\r\n]+")
# texts may contain brackets
_BRACKET = re.compile(
    rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL
)
_OPENING = b"[{"


def members(text: bytes) -> dict[str, bytes]:
    """The members of a JSON object, by name. If a name occurs twice, the last member counts.
    `text`: valid JSON. Empty if it is not an object."""
    values: dict[str, bytes] = {}
    position = _skip_space(text, 0)
    if text[position : position + 1] != b"{":
        return values
    while text[position : position + 1] != b"}":
        start = _skip_space(text, position + 1)
        if text[start : start + 1] == b"}":
            break
        end = value_end(text, start)
        name = text[start:end]
        start = _skip_space(text, _skip_space(text, end) + 1)
        end = value_end(text, start)
        values[_name(name)] = text[start:end]
        position = _skip_space(text, end)
    return values


def _skip_space(text: bytes, position: int) -> int:
    return _end_of(_SPACE, text, position)


def _end_of(pattern: re.Pattern[bytes], text: bytes, position: int) -> int:
    match = pattern.match(text, position)
    if match is None:
        raise ValueError("not JSON")
    return match.end()


def value_end(text: bytes, position: int) -> int:
    """The end of the value that begins at `position` in valid JSON. Raises ValueError if none
    begins there."""
    opening = text[position : position + 1]
    if opening == b'"':
        return _end_of(_TEXT, text, position)
    if opening not in (b"[", b"{"):
        return _end_of(_SCALAR, text, position)
    depth = 0
    for bracket in _BRACKET.finditer(text, position):
        depth += 1 if bracket[1] in _OPENING else -1
        if not depth:
            return bracket.end()
    raise ValueError("not JSON")


def _name(written: bytes) -> str:
    if b"\\" not in written:
        return written[1:-1].decode()
    # half of a surrogate pair cannot be a name that is looked for
    try:
        return str(orjson.loads(written))
    except orjson.JSONDecodeError:
        return written.decode()
