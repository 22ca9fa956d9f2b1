"""The entries of one key, from one partition or from all, which are read like a store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter
from typing import Protocol

from model.records import is_unreadable, place


class _Scanned(Protocol):
    stream_time: int | None

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...


class PlacedEntries:
    """The entries of a store partition, with the unreadable ones placed."""

    def __init__(self, store: _Scanned, partition: int) -> None:
        self._store, self._partition = store, partition

    @property
    def stream_time(self) -> int | None:
        return self._store.stream_time

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """As `scan` of a store."""
        for key, stored in self._store.scan(low, high, backwards):
            yield key, place(stored, self._partition) if is_unreadable(stored) else stored


class MergedEntries:
    """The part of a store that reads by key need."""

    def __init__(self, entries: list[tuple[bytes, bytes]], stream_time: int | None) -> None:
        """`entries`: stored keys and bytes, in order. `stream_time`: the latest of all (ms)."""
        self._entries = entries
        self.stream_time = stream_time

    def scan(
        self, low: bytes, high: bytes, backwards: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """(stored key, stored bytes) with low <= key < high."""
        first, last = (bisect_left(self._entries, key, key=itemgetter(0)) for key in (low, high))
        entries = self._entries[first:last]
        return reversed(entries) if backwards else iter(entries)
