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
    """The members of a JSON object, by name. If a name is there twice, the last member counts.
    `text`: valid JSON. Empty if it is not an object."""
    found: dict[str, bytes] = {}
    at = _skip_space(text, 0)
    if text[at : at + 1] != b"{":
        return found
    while text[at : at + 1] != b"}":
        start = _skip_space(text, at + 1)
        if text[start : start + 1] == b"}":
            break
        end = value_end(text, start)
        name = text[start:end]
        start = _skip_space(text, _skip_space(text, end) + 1)
        end = value_end(text, start)
        found[_name(name)] = text[start:end]
        at = _skip_space(text, end)
    return found


def _skip_space(text: bytes, at: int) -> int:
    return _end_of(_SPACE, text, at)


def _end_of(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError("not JSON")
    return match.end()


def value_end(text: bytes, at: int) -> int:
    """The end of the value that begins at `at` in valid JSON; ValueError if none begins there."""
    first = text[at : at + 1]
    if first == b'"':
        return _end_of(_TEXT, text, at)
    if first not in (b"[", b"{"):
        return _end_of(_SCALAR, text, at)
    depth = 0
    for bracket in _BRACKET.finditer(text, at):
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
