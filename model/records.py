"""What a store partition keeps, as bytes. Numbers are big-endian.

    0x00 · name               a note of the store itself: position, stream time, identity
    0x01 · key (`layouts`)    an entry:  record timestamp (8 B, ms) · offset (8 B) · value
    0x02 · time (8 B) · key   when an entry's time was; only where a view has a retention

A delete is an entry, too, in a versioned store, and where the key may be in another partition as
well, whose entry may be older: its offset is stored as its complement (negative), its value is
empty.

The position lies in the same keyspace as the entries, so that one WriteBatch (and, after a crash,
one write-ahead log) holds both or neither.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

ENTRY = b"\x01"
EXPIRY = b"\x02"
POSITION_KEY = b"\x00position"
STREAM_TIME_KEY = b"\x00stream-time"
IDENTITY_KEY = b"\x00identity"

_HEAD = struct.Struct(">qq")
_SIGN = 1 << 63
_NUMBER = struct.Struct(">q")

ENTRY_HEAD_SIZE = _HEAD.size
entry_head = _HEAD.pack


class Entry(NamedTuple):
    """One entry of a view: `value` in record bytes, with the record's timestamp (ms) and offset;
    no value for a delete."""

    timestamp: int
    offset: int
    value: bytes | None


def decode_entry(stored: bytes) -> Entry:
    """An entry from its stored bytes; struct.error if they are no entry."""
    timestamp, offset = _HEAD.unpack_from(stored)
    if offset < 0:
        return Entry(timestamp, ~offset, None)
    return Entry(timestamp, offset, stored[ENTRY_HEAD_SIZE:])


def deleted_entry(timestamp: int, offset: int) -> bytes:
    """The entry of a delete."""
    return _HEAD.pack(timestamp, ~offset)


def is_deleted(stored: bytes) -> bool:
    return stored[8] >= 0x80


def entry_offset(stored: bytes) -> int:
    """The record offset of an entry, without the rest of it."""
    return int.from_bytes(stored[8:16], "big")


def ordered_time(ms: int) -> bytes:
    """A time as 8 B in the order of the numbers, negative ones first."""
    return (ms + _SIGN).to_bytes(8, "big")


def from_ordered_time(stored: bytes) -> int:
    """The inverse, ms."""
    return int.from_bytes(stored, "big") - _SIGN


def encode_number(number: int) -> bytes:
    """A position, or a stream time (ms)."""
    return _NUMBER.pack(number)


def decode_number(stored: bytes) -> int:
    number: int = _NUMBER.unpack(stored)[0]
    return number


@dataclass(frozen=True)
class StoreMetadata:
    """What the entries were made from: a store partition is used again only for the same."""

    view_hash: str
    topic_id: str
    partitions: int  # of the topic, when the first record was applied
    leader_epoch: int  # of the last record applied; -1 where the broker tells none
    answerable: bool  # it had reached the end of the log once
    mis_partitioned: int  # records whose partition is not the partitioner's
    dead_letters: int  # records that could not be decoded
    alive_at: int  # wall clock, ms: when its instance last had it open

    def encode(self) -> bytes:
        return orjson.dumps(self)

    @staticmethod
    def decode(stored: bytes) -> StoreMetadata:
        """ValueError or TypeError if `stored` was not written by `encode`."""
        fields: dict[str, Any] = orjson.loads(stored)
        return StoreMetadata(**fields)
