"""How many steps a regular expression may take on a long text.

Java's matcher tries all lengths of a repetition until the rest of the pattern matches. More than
one length can continue the match only if the repetition also matches what can follow it: in ``.* ``
it does, in ``[^ ]* `` it does not. So the number of steps is the product of the lengths of all
repetitions that do, times the number of places where a match can begin.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LONG_TEXT = 100_000
"""The length of a long text, in characters."""

# What can come next, apart from characters.
_END, _EDGE, _UNKNOWN = "end", "edge", "unknown"
_ANY_OTHER = "\uffff"
_ASCII = frozenset(map(chr, range(128)))
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_EMPTY: dict[str, set[str]] = {"^": {_UNKNOWN}, "$": set(), r"\b": {_EDGE}, r"\B": {_UNKNOWN}}


class Part(NamedTuple):
    """A part of a pattern: a character or a set of them, ``^``, ``$``, ``\\b``, ``(``, ``|`` or
    ``)``; it may come ``least`` to ``most`` times (``LONG_TEXT`` if there is no limit)."""

    text: str
    least: int = 1
    most: int = 1


def most_steps(parts: Sequence[Part]) -> tuple[float, str]:
    """An upper limit of the steps on a long text, and the first repetition that matches what can
    follow it. ``parts``: of a valid pattern that repeats no groups."""
    characters = _characters(parts)
    followed_by = _first(parts, characters)
    steps, first = 1.0, ""
    is_anchored = bool(parts) and parts[0].text == "^" and not _alternatives(parts, -1)
    for at in reversed(range(len(parts))):
        text, least, most = parts[at]
        # If nothing needs to follow, the first length that is tried is the right one.
        if least == most or _END in followed_by[at + 1]:
            continue
        if text == ")":
            steps *= 2
        elif not _is_certain(characters[at], followed_by[at + 1]):
            steps *= most - least + 1
            first = _written(parts[at])
        elif not _begins_once(parts, characters, at):
            steps = max(steps, most)
    return (steps if is_anchored else steps * LONG_TEXT), first


def _characters(parts: Iterable[Part]) -> list[frozenset[str]]:
    """The characters that each part matches. ``_ANY_OTHER`` stands for all characters that are not
    in the pattern."""
    others = {character for part in parts for character in part.text}
    alphabet = _ASCII | others | {_ANY_OTHER}
    by_text: dict[str, frozenset[str]] = dict.fromkeys([*_EMPTY, "(", "|", ")"], frozenset())
    for text in {part.text for part in parts} - by_text.keys():
        matches = re.compile(text, re.ASCII | re.DOTALL).fullmatch
        by_text[text] = frozenset(character for character in alphabet if matches(character))
    return [by_text[part.text] for part in parts]


def _first(parts: Sequence[Part], characters: Sequence[frozenset[str]]) -> list[set[str]]:
    """For each part, and for the end: what the rest of the pattern can begin with from there on."""
    first: list[set[str]] = [set() for _ in parts] + [{_END}]
    closing = len(parts)  # the end of the group that the part is in
    outer: list[int] = []
    for at in reversed(range(len(parts))):
        text, least, _ = parts[at]
        if text == ")":
            outer.append(closing)
            closing = at
            first[at] = first[at + 1]
        elif text == "(":
            first[at] = set(first[at + 1])
            for other in _alternatives(parts, at):
                first[at] |= first[other + 1]
            if parts[closing].least == 0:
                first[at] |= first[closing + 1]
            closing = outer.pop()
        elif text == "|":
            first[at] = first[closing]
        elif text in _EMPTY:
            first[at] = set(_EMPTY[text])
        else:
            first[at] = {*characters[at], *(first[at + 1] if least == 0 else ())}
    return first


def _alternatives(parts: Sequence[Part], group: int) -> list[int]:
    """The places of ``|`` in the group that begins there; -1 is the whole pattern."""
    places, depth = [], 0
    for at in range(group + 1, len(parts)):
        text = parts[at].text
        depth += (text == "(") - (text == ")")
        if depth < 0:
            break
        if text == "|" and depth == 0:
            places.append(at)
    return places


def _is_certain(characters: frozenset[str], following: set[str]) -> bool:
    """Whether only one length of a repetition can continue the match."""
    if _EDGE in following and not (characters <= _WORD or characters.isdisjoint(_WORD)):
        return False
    return _UNKNOWN not in following and characters.isdisjoint(following)


def _begins_once(parts: Sequence[Part], characters: Sequence[frozenset[str]], at: int) -> bool:
    """Whether a repetition can only begin where its run of characters begins, so that the runs of
    all attempts together are not longer than the text."""
    before = at - 1
    while before >= 0 and parts[before].text == "(":
        before -= 1
    if before < 0 or parts[before].least == 0:
        return False
    if parts[before].text == r"\b":
        return characters[at] <= _WORD
    return bool(characters[before]) and characters[before].isdisjoint(characters[at])


def _written(part: Part) -> str:
    text, least, most = part
    if most == LONG_TEXT:
        return text + {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    return text + ("?" if (least, most) == (0, 1) else f"{{{least},{most}}}")
