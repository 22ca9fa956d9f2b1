"""Membership in little memory: whether a key has ever been there, by Bloom filters.

A store for views.toml: `store = "backend.storage.bloom_filter:BloomFilter"`. `GET …/keys/{key}`
answers true or false. False is certain; true is wrong for some 1 % of the keys that never were
there, and for keys that were deleted: a Bloom filter forgets nothing.

Source: Almeida et al., "Scalable Bloom Filters" (2007): when a filter is full, another one of twice
its capacity and half its error is put beside it, so that the sum stays bounded.
"""

from __future__ import annotations

from rbloom import Bloom

_CAPACITY = 100_000
_ERROR = 0.005  # of the first filter; all together stay below twice that


class BloomFilter:
    """Some 1.5 bytes a key."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._error = _ERROR
        self._room = capacity
        self._filters = [Bloom(capacity, _ERROR)]

    def apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None:
        if value is None or self.query(key):
            return
        if not self._room:
            self._capacity *= 2
            self._error /= 2
            self._room = self._capacity
            self._filters.append(Bloom(self._capacity, self._error))
        self._filters[-1].add(key)
        self._room -= 1

    def query(self, key: bytes) -> bool:
        return any(key in each for each in self._filters)

    def size(self) -> int:
        return sum(each.size_in_bits for each in self._filters) // 8

    def close(self) -> None:
        self._filters = []
