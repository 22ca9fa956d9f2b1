"""The RocksDB keys of a view's entries. Each kind of store has its own layout.

| store     | record key (as in Kafka Streams' changelogs) | stored key, after `ENTRY` |
|-----------|----------------------------------------------|---------------------------|
| key-value | key                                          | key¹                      |
| window    | key · start (8 B, ms) · sequence (4 B)²      | key³ · start⁴ · sequence  |
| session   | key · end (8 B, ms) · start (8 B, ms)        | key³ · end⁴ · start⁴      |
| versioned | key; the record's timestamp is the version   | key³ · timestamp⁴         |

¹ `codec.to_store`: the byte order is the order of the type.
² only `key · start` if `window_key = "topic"`, as written by Kafka Streams' `to()`.
³ as ¹. In keys of variable length, each 00 becomes 00 FF, and 00 00 ends the key. So the order is
  correct when more bytes follow. Source: FoundationDB's tuple layer.
⁴ 8 B, with the sign bit flipped.

All integers are big-endian. Partitioners hash the `key` without times, which is the *bare key*.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from model.formats.codec import Codec
from model.records import ENTRY, ordered_time

Range = tuple[bytes, bytes]
"""Stored keys from the first (inclusive) to the second (exclusive)."""


class EntryKey(NamedTuple):
    """A decoded stored key. Times are in ms. `start`: the start of a window or session, or the time
    from which a version is valid. `end`: the end of a session."""

    key: bytes
    start: int = 0
    end: int = 0
    sequence: int = 0


class Layout(Protocol):
    """Maps record keys to stored keys and back. Raises ValueError for an invalid record key."""

    def bare_key(self, record_key: bytes) -> bytes:
        """The part of a record key that queries use as the key."""

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        """The stored key of a record; `timestamp` (ms) is used for versions only."""

    def entry_key(self, stored_key: bytes) -> EntryKey:
        """The inverse of `stored_key`."""

    def key_range(self, first: bytes | None, last: bytes | None) -> Range:
        """All entries with first <= bare key <= last, in the order of the type; None: no bound."""

    def prefix_range(self, prefix: bytes) -> Range:
        """All entries whose bare key starts with `prefix`, for keys that are text or bytes."""


def after(prefix: bytes) -> bytes:
    """The smallest byte string that is greater than all strings with this prefix."""
    bare = prefix.rstrip(b"\xff")
    return bare[:-1] + bytes((bare[-1] + 1,))


ALL: Range = (ENTRY, after(ENTRY))


class TimedLayout:
    """The base class of layouts with times after the key."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._fixed = codec.size  # None: variable length

    def head(self, key: bytes) -> bytes:
        """The common prefix of the stored keys of a bare key."""
        stored = self._codec.to_store(key)
        return ENTRY + (stored if self._fixed is not None else _escape(stored) + b"\0\0")

    def split(self, stored_key: bytes, tail: int) -> tuple[bytes, bytes]:
        """The bare key, and the last `tail` bytes of a stored key."""
        head = stored_key[1:-tail]
        if self._fixed is None:
            head = head[:-2].replace(b"\0\xff", b"\0")
        return self._codec.from_store(head), stored_key[-tail:]

    def time_range(self, key: bytes, first: int | None, last: int | None) -> Range:
        """The entries of `key` with first <= time <= last (ms); None: no bound. `time`: the start
        of a window, the end of a session, or the time from which a version is valid."""
        head = self.head(key)
        low = head if first is None else head + ordered_time(first)
        return low, after(head if last is None else head + ordered_time(last))

    def key_range(self, first: bytes | None, last: bytes | None) -> Range:
        low = ALL[0] if first is None else self.head(first)
        high = ALL[1] if last is None else after(self.head(last))
        return low, high

    def prefix_range(self, prefix: bytes) -> Range:
        if self._fixed is None:
            head = ENTRY + _escape(prefix)
        else:
            head = ENTRY + prefix
            if len(prefix) > self._fixed:
                return head, head  # no entries: the next bytes of a stored key are its time
        return head, after(head)


def _escape(stored: bytes) -> bytes:
    return stored.replace(b"\0", b"\0\xff")
