"""Where the entries of a view stand in RocksDB. Each kind of store has a layout of its own.

| store     | record key (as in Kafka Streams' changelogs) | stored key, after `ENTRY` |
|-----------|----------------------------------------------|---------------------------|
| key-value | key                                          | key¹                      |
| window    | key · start (8 B, ms) · sequence (4 B)²      | key³ · start⁴ · sequence  |
| session   | key · end (8 B, ms) · start (8 B, ms)        | key³ · end⁴ · start⁴      |
| versioned | key; the record's timestamp is the version   | key³ · timestamp⁴         |

¹ `codec.to_store`: byte order is the type's order.
² `key · start` alone where `window_key = "topic"`: what Kafka Streams' `to()` writes.
³ the same; where keys differ in length each 00 in it becomes 00 FF, and 00 00 ends it, so that
  something can follow and the order stays (as FoundationDB's tuple layer does it).
⁴ 8 B, sign bit flipped.

All integers are big-endian. `key` alone, without time, is what partitioners hash: the *bare key*.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from model.formats.codecs import Codec
from model.records import ENTRY

Range = tuple[bytes, bytes]
"""Stored keys from the first on, up to but without the second."""


class EntryKey(NamedTuple):
    """What a stored key says, as far as the store has it. Times in ms: a window's start; a
    session's start and end; a version's first moment is its `start`."""

    key: bytes
    start: int = 0
    end: int = 0
    sequence: int = 0


class Layout(Protocol):
    """Record keys to stored keys and back. ValueError says what is wrong with a record key."""

    def bare_key(self, record_key: bytes) -> bytes:
        """The part of a record key that is the reader's key."""

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        """Where the record of this key and timestamp (ms; it matters to versions) is kept."""

    def entry_key(self, stored_key: bytes) -> EntryKey:
        """The inverse."""

    def key_range(self, first: bytes | None, last: bytes | None) -> Range:
        """All entries with first <= bare key <= last, in the order of the type; None: no bound."""

    def prefix_range(self, prefix: bytes) -> Range:
        """All entries whose bare key begins with `prefix`; for keys that are text or bytes."""


def after(prefix: bytes) -> bytes:
    """The least byte string that is greater than all with this prefix."""
    bare = prefix.rstrip(b"\xff")
    return bare[:-1] + bytes((bare[-1] + 1,))


ALL: Range = (ENTRY, after(ENTRY))


class TimedLayout:
    """What the layouts have in common in which times follow the key."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._fixed = codec.size  # None: keys differ in length

    def head(self, key: bytes) -> bytes:
        stored = self._codec.to_store(key)
        return ENTRY + (stored if self._fixed is not None else _escape(stored) + b"\0\0")

    def split(self, stored_key: bytes, tail: int) -> tuple[bytes, bytes]:
        """The bare key, and the last `tail` bytes."""
        head = stored_key[1:-tail]
        if self._fixed is None:
            head = head[:-2].replace(b"\0\xff", b"\0")
        return self._codec.from_store(head), stored_key[-tail:]

    def key_range(self, first: bytes | None, last: bytes | None) -> Range:
        low = ALL[0] if first is None else self.head(first)
        high = ALL[1] if last is None else after(self.head(last))
        return low, high

    def prefix_range(self, prefix: bytes) -> Range:
        head = ENTRY + _escape(prefix)
        return head, after(head)


def _escape(stored: bytes) -> bytes:
    return stored.replace(b"\0", b"\0\xff")
