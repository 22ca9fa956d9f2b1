"""Where the entries of a view stand in RocksDB: one layout a kind of store, all without I/O.

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

import struct
from typing import NamedTuple, Protocol

from model.formats.codecs import Codec
from model.records import ENTRY, from_ordered_time, ordered_time

_START_SEQUENCE = struct.Struct(">Qi")
_TWO_TIMES = struct.Struct(">QQ")
_SIGN = 1 << 63

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


class KeyValueLayout:
    """One entry a key."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def bare_key(self, record_key: bytes) -> bytes:
        return record_key

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        return ENTRY + self._codec.to_store(record_key)

    def entry_key(self, stored_key: bytes) -> EntryKey:
        return EntryKey(self._codec.from_store(stored_key[1:]))

    def key_range(self, first: bytes | None, last: bytes | None) -> Range:
        low = ALL[0] if first is None else self.stored_key(first)
        high = ALL[1] if last is None else self.stored_key(last) + b"\0"
        return low, high

    def prefix_range(self, prefix: bytes) -> Range:
        return ENTRY + prefix, after(ENTRY + prefix)


class _TimedLayout:
    """What the layouts share where times follow the key."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._fixed = codec.size  # None: keys differ in length

    def _head(self, key: bytes) -> bytes:
        stored = self._codec.to_store(key)
        return ENTRY + (stored if self._fixed is not None else _escape(stored) + b"\0\0")

    def _split(self, stored_key: bytes, tail: int) -> tuple[bytes, bytes]:
        """The bare key, and the last `tail` bytes."""
        head = stored_key[1:-tail]
        if self._fixed is None:
            head = head[:-2].replace(b"\0\xff", b"\0")
        return self._codec.from_store(head), stored_key[-tail:]

    def key_range(self, first: bytes | None, last: bytes | None) -> Range:
        low = ALL[0] if first is None else self._head(first)
        high = ALL[1] if last is None else after(self._head(last))
        return low, high

    def prefix_range(self, prefix: bytes) -> Range:
        head = ENTRY + _escape(prefix)
        return head, after(head)


class WindowLayout(_TimedLayout):
    """Entries of a key by window start, then sequence (several of the same start: duplicates)."""

    def __init__(self, codec: Codec, sequenced: bool = True) -> None:
        """`sequenced`: whether record keys end with the sequence."""
        super().__init__(codec)
        self._tail = 12 if sequenced else 8

    def bare_key(self, record_key: bytes) -> bytes:
        return record_key[: -self._tail]

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        if len(record_key) < self._tail:
            raise ValueError(
                f"a windowed record key ends with {self._tail} bytes of time"
                f"{' and sequence' if self._tail == 12 else ''}, and this has {len(record_key)}"
            )
        suffix = record_key[-self._tail :].ljust(12, b"\0")
        flipped = bytes((suffix[0] ^ 0x80,)) + suffix[1:]
        return self._head(record_key[: -self._tail]) + flipped

    def entry_key(self, stored_key: bytes) -> EntryKey:
        key, tail = self._split(stored_key, 12)
        start, sequence = _START_SEQUENCE.unpack(tail)
        return EntryKey(key, start=start - _SIGN, sequence=sequence)

    def time_range(self, key: bytes, first: int | None, last: int | None) -> Range:
        """The entries of `key` with first <= start <= last (ms); None: no bound."""
        head = self._head(key)
        low = head if first is None else head + ordered_time(first)
        return low, after(head if last is None else head + ordered_time(last))


class SessionLayout(_TimedLayout):
    """Entries of a key by session end, then start."""

    def bare_key(self, record_key: bytes) -> bytes:
        return record_key[:-16]

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        if len(record_key) < 16:
            raise ValueError(
                f"a session's record key ends with 16 bytes of end and start, and this has "
                f"{len(record_key)}"
            )
        end, start = _TWO_TIMES.unpack(record_key[-16:])
        return self._head(record_key[:-16]) + _TWO_TIMES.pack(end ^ _SIGN, start ^ _SIGN)

    def entry_key(self, stored_key: bytes) -> EntryKey:
        key, tail = self._split(stored_key, 16)
        end, start = _TWO_TIMES.unpack(tail)
        return EntryKey(key, start=start - _SIGN, end=end - _SIGN)

    def ending_from(self, key: bytes, end: int | None) -> Range:
        """The sessions of `key` that end at `end` (ms) or later."""
        head = self._head(key)
        return head if end is None else head + ordered_time(end), after(head)


class VersionedLayout(_TimedLayout):
    """Entries of a key by the time from which they are valid."""

    def bare_key(self, record_key: bytes) -> bytes:
        return record_key

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        return self._head(record_key) + ordered_time(timestamp)

    def entry_key(self, stored_key: bytes) -> EntryKey:
        key, tail = self._split(stored_key, 8)
        return EntryKey(key, start=from_ordered_time(tail))

    def valid_from_range(self, key: bytes, first: int | None, last: int | None) -> Range:
        """The versions of `key` with first <= valid from <= last (ms); None: no bound."""
        head = self._head(key)
        low = head if first is None else head + ordered_time(first)
        return low, after(head if last is None else head + ordered_time(last))


def _escape(stored: bytes) -> bytes:
    return stored.replace(b"\0", b"\0\xff")
