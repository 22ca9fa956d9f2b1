"""Reads of a store as it is at one moment, whatever is written meanwhile.

An iterator of RocksDB reads the moment at which it was made. One iterator is moved to each entry
that is read, so this takes longer than several scans, for which there must be no write between
their beginnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocksdict import RdictIter


class Moment:
    """The moment at which an iterator was made. Only one thread may use it."""

    def __init__(self, iterator: RdictIter, error: Callable[[Exception], Exception]) -> None:
        """`error`: the error to raise instead of one of the iterator."""
        self._iterator = iterator
        self._error = error

    def get(self, key: bytes) -> bytes | None:
        """As `RocksDBStore.get`."""
        entry = self._first(key)
        return entry[1] if entry is not None and entry[0] == key else None

    def scan(self, low: bytes, high: bytes, backwards: bool) -> Iterator[tuple[bytes, bytes]]:
        """As `RocksDBStore.scan`."""
        while (entry := self._last(high) if backwards else self._first(low)) is not None:
            if not low <= entry[0] < high:
                return
            yield entry
            # other reads move the iterator, too
            low, high = (low, entry[0]) if backwards else (entry[0] + b"\0", high)

    def _first(self, low: bytes) -> tuple[bytes, bytes] | None:
        """The first entry from this key on."""
        try:
            self._iterator.seek(low)
            return self._entry()
        except Exception as e:
            raise self._error(e) from e

    def _last(self, high: bytes) -> tuple[bytes, bytes] | None:
        """The last entry before this key."""
        try:
            self._iterator.seek_for_prev(high)
            if self._iterator.valid() and self._iterator.key() == high:
                self._iterator.prev()
            return self._entry()
        except Exception as e:
            raise self._error(e) from e

    def _entry(self) -> tuple[bytes, bytes] | None:
        if self._iterator.valid():
            return self._iterator.key(), self._iterator.value()
        self._iterator.status()  # the iterator also ends at an unreadable block
        return None
