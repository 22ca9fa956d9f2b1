"""The entries of one key from all partitions, readable like one store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter


class MergedEntries:
    """What reads by key need of a store."""

    def __init__(self, entries: list[tuple[bytes, bytes]], stream_time: int | None) -> None:
        """`entries`: stored keys and bytes, in order. `stream_time`: the latest of all (ms)."""
        self._entries = entries
        self.stream_time = stream_time

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """(stored key, stored bytes) with low <= key < high."""
        first, last = (bisect_left(self._entries, key, key=itemgetter(0)) for key in (low, high))
        found = self._entries[first:last]
        return reversed(found) if backwards else iter(found)
