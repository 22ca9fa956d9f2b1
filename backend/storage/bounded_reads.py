"""Reads many keys for an answer of few bytes, so that few of their values are in memory at once.

A request may ask 500 times for a key whose value has a megabyte. So keys are read in slices. After
each slice, values that are too large for such an answer are dropped. When the answer is full, the
rest is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from backend.wire.point_batch import LARGE

SLICE = 64
"""How many keys are read together. Most requests have fewer keys, and need no ReadBudget."""

NOT_READ = bytes(LARGE)
"""Stands for an entry that is too large, or was not read. It is too large itself."""

_Key = TypeVar("_Key")


class ReadBudget:
    """How many bytes of entries may still be read. An entry of `large` bytes or more is dropped,
    and counts as `large` bytes. `at_once`: how many keys are read together."""

    __slots__ = ("_at_once", "_large", "_left")

    def __init__(self, left: int, large: int = LARGE, at_once: int = SLICE) -> None:
        self._left = left
        self._large = large
        self._at_once = at_once

    def read(
        self,
        read: Callable[[Sequence[_Key]], list[bytes | None]],
        keys: Sequence[_Key],
    ) -> list[bytes | None]:
        """What `read` finds: an entry or None for each key, or NOT_READ."""
        entries: list[bytes | None] = []
        for start in range(0, len(keys), self._at_once):
            if self._left <= 0:
                entries += [NOT_READ] * (len(keys) - start)
                break
            entries_read = read(keys[start : start + self._at_once])
            size = sum(map(len, filter(None, entries_read)))
            if size >= self._large:
                large = self._large
                entries_read = [NOT_READ if e and len(e) >= large else e for e in entries_read]
                size = sum(map(len, filter(None, entries_read)))
            self._left -= size
            entries += entries_read
        return entries

    def take(self, entry: bytes | None) -> bytes | None:
        """Count an entry that was read separately. Returns the entry, or NOT_READ."""
        if entry is None:
            return None
        if self._left <= 0 or len(entry) >= self._large:
            entry = NOT_READ
        self._left -= len(entry)
        return entry
