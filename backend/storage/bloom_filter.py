"""A custom store with Bloom filters, which tell in little memory whether a key has ever existed.

In views.toml: `store = "backend.storage.bloom_filter:BloomFilter"`. `GET …/keys/{key}` answers true
or false. False is certain. True is wrong for about 1 % of the keys that never existed, and for
deleted keys, because a Bloom filter cannot delete.

When a filter is full, another one with twice its capacity and half its error rate is added, so that
the total error rate stays bounded. Source: Almeida et al., "Scalable Bloom Filters" (2007).
"""

from __future__ import annotations

from rbloom import Bloom

_CAPACITY = 100_000
_ERROR_RATE = 0.005  # of the first filter; the total stays below twice that


class BloomFilter:
    """A scalable Bloom filter; it takes about 1.5 bytes per key."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._error_rate = _ERROR_RATE
        self._remaining = capacity
        self._filters = [Bloom(capacity, _ERROR_RATE)]

    def apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None:
        if value is None or self.query(key):
            return
        if not self._remaining:
            self._capacity *= 2
            self._error_rate /= 2
            self._remaining = self._capacity
            self._filters.append(Bloom(self._capacity, self._error_rate))
        self._filters[-1].add(key)
        self._remaining -= 1

    def query(self, key: bytes) -> bool:
        return any(key in bloom for bloom in self._filters)

    def size(self) -> int:
        return sum(bloom.size_in_bits for bloom in self._filters) // 8

    def close(self) -> None:
        self._filters = []
