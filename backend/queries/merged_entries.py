"""The entries of one key from all partitions, to be read as if they lay in one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter


class MergedEntries:
    """What the reads by key need of a store."""

    def __init__(self, entries: list[tuple[bytes, bytes]], stream_time: int | None) -> None:
        """Stored keys and bytes in order; of several stream times (ms) the latest."""
        self._entries = entries
        self.stream_time = stream_time

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """(stored key, stored bytes) with low <= key < high."""
        first, last = (bisect_left(self._entries, key, key=itemgetter(0)) for key in (low, high))
        found = self._entries[first:last]
        return reversed(found) if backwards else iter(found)
