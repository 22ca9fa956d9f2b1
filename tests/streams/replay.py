"""What a changelog says, by the rules of Kafka Streams' own stores, written without the product.

A difference between the application and this is the format's; one between this and the product is
the product's. For text keys; values are decoded by `decode`.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.topics import Log

Decode = Callable[[bytes], Any]
_LEAST = -(1 << 63)


class KeyValues:
    """The last record of a key is its value."""

    def __init__(self, logs: Sequence[Log], decode: Decode) -> None:
        self._values: dict[str, Any] = {}
        for log in logs:
            for _, _, key, value in log.records:
                self._values[key.decode()] = None if value is None else decode(value)

    def value(self, key: str) -> Any:
        return self._values.get(key)

    def all(self) -> list[list[Any]]:
        """[key, value] each, in the order of the keys."""
        return [[key, value] for key, value in sorted(self._values.items()) if value is not None]


class _Timed:
    """Stores that forget: each partition by the greatest time that it has seen."""

    def __init__(self, logs: Sequence[Log], decode: Decode, retention: int) -> None:
        self._decode = decode
        self._retention = retention
        self._seen = [_LEAST] * len(logs)
        self._partitions: list[dict[str, dict[tuple[int, ...], Any]]] = []
        for number, log in enumerate(logs):
            self._partitions.append(defaultdict(dict))
            for _, timestamp, key, value in log.records:
                self._apply(number, key, timestamp, value)

    def _apply(self, number: int, key: bytes, timestamp: int, value: bytes | None) -> None:
        raise NotImplementedError

    def _put(
        self, number: int, key: bytes, where: tuple[int, ...], time: int, value: bytes | None
    ) -> None:
        self._seen[number] = max(self._seen[number], time)
        entries = self._partitions[number][key.decode()]
        entries.pop(where, None)
        if value is not None:
            entries[where] = self._decode(value)

    def _of(self, key: str) -> tuple[list[tuple[tuple[int, ...], Any]], int]:
        """The entries of a key in order, and the least time that is not forgotten there."""
        for partition, seen in zip(self._partitions, self._seen, strict=True):
            if key in partition:
                return sorted(partition[key].items()), seen - self._retention + 1
        return [], _LEAST

    def all_keys(self) -> list[str]:
        """In order."""
        return sorted({key for partition in self._partitions for key in partition})

    def horizon(self, key: str) -> int:
        """The least time that is not forgotten."""
        return self._of(key)[1]


class Windows(_Timed):
    def _apply(self, number: int, key: bytes, timestamp: int, value: bytes | None) -> None:
        start, sequence = struct.unpack(">qi", key[-12:])
        self._put(number, key[:-12], (start, sequence), start, value)

    def windows(self, key: str, first: int, last: int) -> list[list[Any]]:
        """[start, sequence, value] each."""
        entries, least = self._of(key)
        return [
            [start, sequence, value]
            for (start, sequence), value in entries
            if max(first, least) <= start <= last
        ]


class Sessions(_Timed):
    def _apply(self, number: int, key: bytes, timestamp: int, value: bytes | None) -> None:
        end, start = struct.unpack(">qq", key[-16:])
        self._put(number, key[:-16], (end, start), end, value)

    def sessions(self, key: str, first: int, last: int) -> list[list[Any]]:
        """[start, end, value] each."""
        entries, least = self._of(key)
        return [
            [start, end, value]
            for (end, start), value in entries
            if end >= max(first, least) and start <= last
        ]


class Versions(_Timed):
    def _apply(self, number: int, key: bytes, timestamp: int, value: bytes | None) -> None:
        self._seen[number] = max(self._seen[number], timestamp)
        if timestamp >= self._seen[number] - self._retention:
            version = None if value is None else self._decode(value)
            self._partitions[number][key.decode()][(timestamp,)] = version

    def horizon(self, key: str) -> int:
        return super().horizon(key) - 1

    def versions(self, key: str, first: int, last: int) -> list[list[Any]]:
        """[valid from, valid to, value] each. What ended before the horizon is not known."""
        known_from = max(first, self.horizon(key))
        return [
            [begins, ends, value]
            for begins, ends, value in self._all(key)
            if begins <= last and (ends is None or (known_from <= last and ends > known_from))
        ]

    def version(self, key: str, as_of: int) -> list[list[Any]]:
        """One or none. What was valid before the horizon is known only if it still is."""
        return [
            [begins, ends, value]
            for begins, ends, value in self._all(key)
            if begins <= as_of and (ends is None or self.horizon(key) <= as_of < ends)
        ]

    def _all(self, key: str) -> list[list[Any]]:
        entries = self._of(key)[0]
        ends = [begin for (begin,), _ in entries[1:]] + [None]
        return [
            [begin, end, value]
            for ((begin,), value), end in zip(entries, ends, strict=False)
            if value is not None
        ]
