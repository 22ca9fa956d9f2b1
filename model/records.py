"""The byte format of a store partition. Numbers are big-endian.

    0x00 · name               the store itself: position, last record, stream time, metadata
    0x01 · key (kinds/layout) an entry: record timestamp (8 B, ms) · offset (8 B) · value
    0x02 · time (8 B) · key   expiry index: the time of an entry; only for views with a retention
    0x03 · …                  the keys of secondary indexes: `model.indexes.encoding`

A tombstone is stored as an entry in two cases: in a versioned store, and if the key may also be in
another partition, whose entry may be older. Its offset is stored as the bitwise complement, which
is negative, and its value is empty.

An *unreadable* entry has the value of a record that was not in the view's format when it was
applied. Its offset is stored plus 2^63. So the first byte of a stored offset shows what the entry
is, also in a push: below 0x80, a value; below 0xA0, an unreadable entry; otherwise, a tombstone.
Queries get an unreadable entry *placed*: with the partition (4 B) between offset and value.

An entry from a push (`model.pushes`) has no record. Its offset is `pushed_offset` of the push. No
record has such an offset, and it differs from push to push.

The position is in the same keyspace as the entries. So one WriteBatch contains both or neither, and
so does the write-ahead log after a crash.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclasses_fields
from typing import Any, NamedTuple

import orjson

ENTRY = b"\x01"
EXPIRY = b"\x02"
INDEX = b"\x03"
POSITION_KEY = b"\x00position"
STREAM_TIME_KEY = b"\x00stream-time"
METADATA_KEY = b"\x00identity"
LAST_RECORD_KEY = b"\x00last-record"
INDEXES_KEY = b"\x00indexes"
INDEX_POSITION_KEY = b"\x00index-position"

_HEAD = struct.Struct(">qq")
_SIGN = 1 << 63
_NUMBER = struct.Struct(">q")
_LAST_RECORD = struct.Struct(">qqI")

_PUSHED = 1 << 62
_FIRST_TOMBSTONE = (1 << 61) - _SIGN  # offsets of records are less than 2^61
_PARTITION = struct.Struct(">I")

ENTRY_HEAD_SIZE = _HEAD.size
_PLACED_SIZE = ENTRY_HEAD_SIZE + _PARTITION.size
entry_head = _HEAD.pack


class Entry(NamedTuple):
    """An entry of a view: the timestamp (ms), offset and value (record bytes) of its record. The
    value of a tombstone is None. The value of an unreadable entry is the stored or placed form."""

    timestamp: int
    offset: int
    value: bytes | None


def decode_entry(stored: bytes) -> Entry:
    """Decode stored bytes. Raises struct.error if they are too short."""
    timestamp, offset = _HEAD.unpack_from(stored)
    if offset < 0:
        if offset >= _FIRST_TOMBSTONE:
            return Entry(timestamp, ~offset, None)
        offset += _SIGN
    return Entry(timestamp, offset, stored[ENTRY_HEAD_SIZE:])


def tombstone_entry(timestamp: int, offset: int) -> bytes:
    """The stored bytes of a tombstone."""
    return _HEAD.pack(timestamp, ~offset)


def is_tombstone(stored: bytes) -> bool:
    """Whether the stored bytes are a tombstone."""
    return stored[8] >= 0xA0


def unreadable_entry(timestamp: int, offset: int, value: bytes) -> bytes:
    """The stored bytes of a record whose value is not in the view's format."""
    return _HEAD.pack(timestamp, offset - _SIGN) + value


def is_unreadable(stored: bytes) -> bool:
    """Whether these are the bytes of an unreadable entry, stored or placed."""
    return 0x80 <= stored[8] < 0xA0


def place(stored: bytes, partition: int) -> bytes:
    """An unreadable entry of a store, with its partition: the form that queries pass on."""
    return stored[:ENTRY_HEAD_SIZE] + _PARTITION.pack(partition) + stored[ENTRY_HEAD_SIZE:]


def unplace(placed: bytes) -> tuple[int, bytes]:
    """The partition of a placed entry, and the entry in the form of a readable one. Raises
    struct.error if it is too short."""
    [partition] = _PARTITION.unpack_from(placed, ENTRY_HEAD_SIZE)
    timestamp, offset, _ = decode_entry(placed)
    return partition, _HEAD.pack(timestamp, offset) + placed[_PLACED_SIZE:]


head_numbers: Callable[[bytes], tuple[int, int]] = _HEAD.unpack_from
"""The timestamp (ms; negative if the record has none) and the offset of an entry that is a value.
Hot path. Raises struct.error if the bytes are too short."""


def entry_time(stored: bytes) -> int | None:
    """The timestamp (ms) of the record of an entry; None if the record has none."""
    time = int.from_bytes(stored[:8], "big", signed=True)
    return time if time >= 0 else None


def timestamp_json(stored: bytes) -> bytes:
    """The result of `entry_time` as JSON: a number, or null."""
    time = entry_time(stored)
    return b"null" if time is None else b"%d" % time


def with_timestamp(item: bytes, stored: bytes) -> bytes:
    """The item of an entry (a JSON object with members), with the record's timestamp added."""
    return b'%b,"timestamp":%b}' % (item[:-1], timestamp_json(stored))


def entry_offset(stored: bytes) -> int:
    """The record offset of an entry that is not a tombstone."""
    return int.from_bytes(stored[8:16], "big")


def pushed_offset(push: str) -> int:
    """The offset of all entries of a push; `push`: its id. So the ETag of an entry differs from the
    ETag of the same key in another push."""
    return _PUSHED | zlib.crc32(push.encode())


def is_pushed(offset: int) -> bool:
    """Whether this is the offset of an entry from a push."""
    return offset >= _PUSHED


def ordered_time(ms: int) -> bytes:
    """A time (ms) as 8 B that sort as the numbers do, negative ones first."""
    return (ms + _SIGN).to_bytes(8, "big")


def from_ordered_time(stored: bytes) -> int:
    """The inverse of `ordered_time`: ms."""
    return int.from_bytes(stored, "big") - _SIGN


def encode_number(number: int) -> bytes:
    """The stored bytes of a position or a stream time (ms)."""
    return _NUMBER.pack(number)


def decode_number(stored: bytes) -> int:
    """The inverse of `encode_number`. Raises struct.error if the size is wrong."""
    number: int = _NUMBER.unpack(stored)[0]
    return number


class LastRecord(NamedTuple):
    """Identifies the record that a store has applied last: its offset, its timestamp (ms), and the
    CRC-32 of its key and value."""

    offset: int
    timestamp: int
    checksum: int

    @staticmethod
    def from_record(
        offset: int, timestamp: int, key: bytes | None, value: bytes | None
    ) -> LastRecord:
        key = key or b""
        checksum = zlib.crc32(key, len(key))
        if value is not None:  # a tombstone differs from an empty value
            checksum = zlib.crc32(value, checksum) ^ 1
        return LastRecord(offset, timestamp, checksum)

    def encode(self) -> bytes:
        return _LAST_RECORD.pack(*self)

    @staticmethod
    def decode(stored: bytes) -> LastRecord:
        """The inverse of `encode`. Raises struct.error if the size is wrong."""
        return LastRecord(*_LAST_RECORD.unpack(stored))


def hash_of_topic(topic_id: str) -> int:
    """A hash that identifies a topic in messages between instances: a topic that is deleted and
    recreated has another id. 0 stands for an unknown topic."""
    return zlib.crc32(topic_id.encode())


@dataclass(frozen=True)
class StoreMetadata:
    """Metadata of a store. An existing store is used only if view and topic still match it."""

    view_hash: str
    topic_id: str
    partitions: int  # the topic's number of partitions when the store was created
    leader_epoch: int  # the leader epoch of the last record applied; -1 if unknown
    answerable: bool  # whether it has reached the end of the log
    mispartitioned: int  # number of mispartitioned records
    dead_letters: int  # number of records that could not be decoded
    alive_at: int  # wall clock, ms: when it was last open
    push: str = ""  # id of the push that it was made from; empty: from records alone
    # smaller numbers of partitions that were known when the store was created: it has the
    # tombstones of keys that belonged to other partitions then
    earlier_counts: tuple[int, ...] = ()
    # wall clock, ms: when it last had all records of the topic. None: at `alive_at`; 0: never
    complete_at: int | None = None
    # parts of `dead_letters`: records whose key could not be decoded, and records that became
    # unreadable entries
    unreadable_keys: int = 0
    unreadable_values: int = 0

    @property
    def last_complete(self) -> int | None:
        """The time at which it last had all records of the topic (wall clock, ms); None: never."""
        return self.alive_at if self.complete_at is None else self.complete_at or None

    @property
    def has_skipped(self) -> bool:
        """Whether some keys have an older value, because their newest record could not be
        decoded."""
        return self.dead_letters > self.unreadable_keys + self.unreadable_values

    @property
    def partition_counts(self) -> set[int]:
        """The numbers of partitions that the topic has had, as far as the store knows."""
        return {self.partitions, *self.earlier_counts}

    def encode(self) -> bytes:
        fields = asdict(self)
        fields["mis_partitioned"] = fields.pop("mispartitioned")  # the stored name
        for name in _ADDED:
            if fields[name] == _DEFAULTS[name]:
                del fields[name]
        return orjson.dumps(fields)

    @staticmethod
    def decode(stored: bytes) -> StoreMetadata:
        """The inverse of `encode`. Raises ValueError or TypeError for other bytes."""
        fields: dict[str, Any] = orjson.loads(stored)
        if "mis_partitioned" in fields:
            fields["mispartitioned"] = fields.pop("mis_partitioned")
        if "earlier_counts" in fields:
            fields["earlier_counts"] = tuple(fields["earlier_counts"])
        return StoreMetadata(**fields)


# fields that older versions do not know: they refuse a store that has one of these fields
_ADDED = ("push", "earlier_counts", "complete_at", "unreadable_keys", "unreadable_values")
_DEFAULTS = {field.name: field.default for field in dataclasses_fields(StoreMetadata)}
