"""Cuts the text of an expression into tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from model.expressions.hints import EXPONENT, QUOTES, unexpected

_NAME = r'(?:[A-Za-z_]\w*|"[^"]+")'
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?(?![\w.]))"
    rf"|(?P<name>{_NAME}(?:\.{_NAME}){{0,15}})|(?P<string>'(?:[^']|'')*')"
    r"|(?P<symbol><>|!=|<=|>=|==|\|\||\*\*|[-+*/%=<>(),\[\]?;@]))",
    re.ASCII,
)


class Token(NamedTuple):
    kind: str
    text: str
    at: int


def tokens(text: str) -> list[Token]:
    """The tokens; the last one is of the kind ``end``. Raises ValueError, which says at which
    character (from 1) the text is wrong."""
    tokens: list[Token] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise ValueError(f"{_unknown(text[at:])} at character {at + 1}")
        kind = token.lastgroup or ""
        tokens.append(Token(kind, token[kind], token.start(kind) + 1))
        at = token.end()
    return [*tokens, Token("end", "", end + 1)]


def _unknown(rest: str) -> str:
    if rest[0] == '"':
        return QUOTES
    if rest[0] == "'":
        return "a string without a closing quote"
    if rest[0].isdigit():
        return EXPONENT
    return unexpected(rest[0])
