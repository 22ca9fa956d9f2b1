"""The content of a changelog by the rules of Kafka Streams' stores, without code of the product.

If the application and this differ, this misreads the format; if this and the product differ, the
product does. Keys are text; `decode` decodes values.
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
    """A key has the value of its last record."""

    def __init__(self, logs: Sequence[Log], decode: Decode) -> None:
        self._values: dict[str, Any] = {}
        for log in logs:
            for _, _, key, value in log.records:
                self._values[key.decode()] = None if value is None else decode(value)

    def value(self, key: str) -> Any:
        return self._values.get(key)

    def all(self) -> list[list[Any]]:
        """A list of [key, value], in the order of the keys."""
        return [[key, value] for key, value in sorted(self._values.items()) if value is not None]


class _Timed:
    """Stores with retention: the greatest time in a partition determines its horizon."""

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
        """The entries of a key in order, and the least time that its partition retains."""
        for partition, seen in zip(self._partitions, self._seen, strict=True):
            if key in partition:
                return sorted(partition[key].items()), seen - self._retention + 1
        return [], _LEAST

    def all_keys(self) -> list[str]:
        """All keys, sorted."""
        return sorted({key for partition in self._partitions for key in partition})

    def horizon(self, key: str) -> int:
        """The least time that the key's partition retains."""
        return self._of(key)[1]


class Windows(_Timed):
    def _apply(self, number: int, key: bytes, timestamp: int, value: bytes | None) -> None:
        start, sequence = struct.unpack(">qi", key[-12:])
        self._put(number, key[:-12], (start, sequence), start, value)

    def windows(self, key: str, first: int, last: int) -> list[list[Any]]:
        """A list of [start, sequence, value]."""
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
        """A list of [start, end, value]."""
        entries, least = self._of(key)
        return [
            [start, end, value]
            for (end, start), value in entries
            if end >= max(first, least) and start <= last
        ]


class ViewVersions(_Timed):
    def _apply(self, number: int, key: bytes, timestamp: int, value: bytes | None) -> None:
        self._seen[number] = max(self._seen[number], timestamp)
        if timestamp >= self._seen[number] - self._retention:
            version = None if value is None else self._decode(value)
            self._partitions[number][key.decode()][(timestamp,)] = version

    def horizon(self, key: str) -> int:
        return super().horizon(key) - 1

    def versions(self, key: str, first: int, last: int) -> list[list[Any]]:
        """A list of [valid from, valid to, value], without versions that end before the horizon."""
        known_from = max(first, self.horizon(key))
        return [
            [begins, ends, value]
            for begins, ends, value in self._all(key)
            if begins <= last and (ends is None or (known_from <= last and ends > known_from))
        ]

    def version(self, key: str, as_of: int) -> list[list[Any]]:
        """A list of at most one version. Before the horizon only the latest version is known."""
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
