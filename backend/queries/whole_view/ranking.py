"""The greatest (or least) entries by a number in their values: for `top`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from backend.queries.whole_view.fields import Documents, Number, NumberField, parse_exactly
from model.views import View

Ranked = tuple[Number, bytes, bytes]
"""Rank (the least comes first), stored key, and the entry or its item."""


class Ranking:
    """Ranks entries by a number of their values."""

    def __init__(self, view: View, by: str | None, descending: bool) -> None:
        """BadRequest if the view has no such numbers."""
        self._documents = Documents(view)
        self._numbers = NumberField(view, by, "by")
        self._descending = descending

    def of_values(self, values: Iterable[bytes]) -> list[Number | None]:
        """The ranks of record bytes; None if there is no number."""
        return self._ranks(self._documents.parse(values))

    def of_items(self, items: Iterable[bytes]) -> list[Number | None]:
        """The ranks of JSON items."""
        return self._ranks([parse_exactly(item)["value"] for item in items])

    def _ranks(self, documents: list[object]) -> list[Number | None]:
        numbers = self._numbers.of(documents)
        if self._descending:
            return [None if number is None else -number for number in numbers]
        return numbers


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
            best = [each for each in best if each < self.end]
        del best[self._limit :]
        sizes = accumulate([len(key) + len(entry) for _, key, entry in best])
        fits = max(sum([size <= self._most_bytes for size in sizes]), 1)
        if fits < len(best):
            self.end = best[fits]
            del best[fits:]
        self.entries = best
