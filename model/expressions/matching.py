"""The functions of patterns in Python: ``like`` and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from model.expressions.patterns import python_pattern

_FIRST_OUTSIDE_16_BITS = "\U00010000"


def like_function(pattern: str) -> Callable[[str], bool]:
    """A function that tells whether a text is like the pattern, in linear time."""
    first, *others = pattern.split("%")
    if not others:
        return _exactly(first)
    *middle, last = others
    starts, ends = _fixed(first), _fixed(last)
    parts = [(_search(part), len(part)) for part in middle if part]
    shortest = len(first) + len(last)

    def is_like(text: str) -> bool:
        end = len(text) - len(last)
        if len(text) < shortest or not starts(text, 0) or not ends(text, end):
            return False
        at = len(first)
        for search, length in parts:
            start = search(text, at, end)
            if start < 0:
                return False
            at = start + length
        return True

    return is_like


def _exactly(part: str) -> Callable[[str], bool]:
    matches = _fixed(part)
    return lambda text: len(text) == len(part) and matches(text, 0)


def _compiled(part: str) -> re.Pattern[str]:
    """The part as a regular expression, in which ``_`` is any character."""
    pattern = "".join("." if character == "_" else re.escape(character) for character in part)
    return re.compile(pattern, re.DOTALL)


def _fixed(part: str) -> Callable[[str, int], bool]:
    """A function (text, at) that tells whether the text has the part at this index."""
    if "_" not in part:
        return lambda text, at: text.startswith(part, at)
    pattern = _compiled(part)
    return lambda text, at: pattern.match(text, at) is not None


def _search(part: str) -> Callable[[str, int, int], int]:
    """A function (text, at, end) that returns the index of the part between these two; -1 if the
    part is not there."""
    if "_" not in part:
        return lambda text, at, end: text.find(part, at, end)
    pattern = _compiled(part)

    def search(text: str, at: int, end: int) -> int:
        match = pattern.search(text, at, end)
        return -1 if match is None else match.start()

    return search


def regexp_like_function(pattern: str) -> Callable[[str], bool]:
    compiled = python_pattern(pattern)
    return lambda text: compiled.search(text) is not None


def regexp_extract_function(pattern: str, group: int = 0) -> Callable[[str], str]:
    compiled = python_pattern(pattern)

    def extract(text: str) -> str:
        match = compiled.search(text)
        return "" if match is None else match[group] or ""

    return extract


def regexp_extract_all_function(pattern: str, group: int = 0) -> Callable[[str], list[str]]:
    compiled = python_pattern(pattern)
    return lambda text: [match[group] or "" for match in _matches(compiled, text)]


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """All matches that Java finds. After an empty match, Java continues at the next UTF-16 code
    unit. So it may find another empty match within a character that has two code units."""
    at = 0
    while at <= len(text) and (match := pattern.search(text, at)) is not None:
        yield match
        at = match.end()
        if match.start() == at:
            if text[at : at + 1] >= _FIRST_OUTSIDE_16_BITS:
                units = f"{text[:at]}\ud800\udc00{text[at + 1 :]}"
                within = pattern.match(units, at + 1)
                if within is not None and within.end() == at + 1:
                    yield within
            at += 1
