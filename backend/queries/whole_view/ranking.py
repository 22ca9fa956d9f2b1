"""The greatest (or least) entries by a number in their values: for `top`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from backend.queries.whole_view.fields import Number, NumberField, negated
from model.problems import BadRequest
from model.rows.documents import Documents, parse_exactly
from model.views import View

_VALUE = b',"value":'
# brackets and commas; and strings, because brackets and commas in them do not count
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{},]')

Ranked = tuple[Number, bytes, bytes]
"""Rank (the least comes first), stored key, and the entry or its item."""


class Ranking:
    """Ranks entries by a number of their values."""

    def __init__(self, view: View, by: str | None, descending: bool) -> None:
        """Raises BadRequest if the view has no such numbers."""
        self._documents = Documents(view)
        self._numbers = NumberField(view, by, "by")
        self._descending = descending

    @property
    def text(self) -> str | None:
        """The `text` of the `NumberField`."""
        return self._numbers.text

    def refusal(self) -> BadRequest:
        """The refusal if there is `text`, but no number."""
        return self._numbers.refusal("by", self.text or "")

    def has_text(self, value: bytes) -> bool:
        """Whether record bytes have a text instead of the number."""
        return self._numbers.has_text(self._documents.parse([value])[0])

    def rank_values(self, values: Iterable[bytes]) -> list[Number | None]:
        """The ranks of record bytes; None if there is no number."""
        return self._ranks(self._documents.parse(values))

    def rank_items(self, items: Iterable[bytes]) -> list[Number | None]:
        """The ranks of JSON items."""
        return self._ranks(list(map(_value_of, items)))

    def _ranks(self, documents: list[object]) -> list[Number | None]:
        numbers = self._numbers.values(documents)
        if self._descending:
            return [None if number is None else negated(number) for number in numbers]
        return numbers


def _value_of(item: bytes) -> Any:
    """The value in `{"key":…,"value":…}`. Raises ValueError."""
    try:
        return parse_exactly(item)["value"]
    except ValueError:  # the value, or the key, has the greatest depth, and is one deeper here
        return parse_exactly(item[_end_of_key(item) + len(_VALUE) : -1])


def _end_of_key(item: bytes) -> int:
    """Where the key of an item ends. Raises ValueError."""
    level = 0
    for token in _TOKENS.finditer(item, 1):
        if token[0] in (b"{", b"["):
            level += 1
        elif token[0] in (b"}", b"]"):
            level -= 1
        elif token[0] == b"," and level == 0 and item.startswith(_VALUE, token.start()):
            return token.start()
    raise ValueError("an item has no value")


class Best:
    """The first `limit` of ranked entries; entries of equal rank are in key order.

    It keeps at most `most_bytes`, but at least one entry. `end` is the first entry that was left
    out for this reason: everything before it is known.
    """

    def __init__(self, limit: int, most_bytes: int) -> None:
        self.entries: list[Ranked] = []
        self.end: Ranked | None = None
        self._limit = limit
        self._most_bytes = most_bytes

    @property
    def worst(self) -> Number | None:
        """Entries of this rank or a greater one are not needed if their keys are greater than all
        keys so far; None: all entries are needed."""
        if len(self.entries) == self._limit:
            return self.entries[-1][0]
        return None if self.end is None else self.end[0]

    @property
    def short(self) -> bool:
        """Whether some of the first `limit` are missing."""
        return self.end is not None and len(self.entries) < self._limit

    def add(self, ranked: list[Ranked], complete: bool = True) -> None:
        """Add entries in any order. If they are not `complete`, the last one is the `end` of
        another `Best`."""
        if not ranked:
            return
        best = sorted(self.entries + ranked)
        if not complete:
            end = max(ranked)
            self.end = end if self.end is None else min(self.end, end)
        if self.end is not None:
            best = [r for r in best if r < self.end]
        del best[self._limit :]
        sizes = accumulate([len(key) + len(entry) for _, key, entry in best])
        fits = max(sum([size <= self._most_bytes for size in sizes]), 1)
        if fits < len(best):
            self.end = best[fits]
            del best[fits:]
        self.entries = best
