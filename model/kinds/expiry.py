"""Retention: which entries of a store partition have expired.

Expiry compares the time of an entry (`Kind.time_of`) with the partition's *stream time*, which is
the greatest time of an entry so far, so that a replay gives the same entries. It is never ahead of
the wall clock (`ingest.stream_time`). The other rules are those of Kafka Streams' stores.

An index by time (`records.EXPIRY`) has a key for each entry. Ingest uses it to find expired
entries.
"""

from __future__ import annotations

from model.kinds.layout import Range, after
from model.records import ENTRY, EXPIRY, from_ordered_time, ordered_time

_MIN_TIME = -(1 << 63)
MAX_TIME = (1 << 63) - 1


def index_key(time: int, stored_key: bytes) -> bytes:
    """The key of an entry in the index; `time` in ms."""
    return EXPIRY + ordered_time(time) + stored_key[1:]


def decode_index_key(key: bytes) -> tuple[int, bytes]:
    """The time (ms) and the stored key of an index key."""
    return from_ordered_time(key[1:9]), ENTRY + key[9:]


def expired_range(until: int) -> Range:
    """The index keys of entries with time < `until` (ms)."""
    return EXPIRY, EXPIRY + ordered_time(max(until, _MIN_TIME))


def index_range_to(last: int) -> Range:
    """The index keys of entries with time <= `last` (ms)."""
    return EXPIRY, after(EXPIRY + ordered_time(last))


def index_range_from(first: int) -> Range:
    """The index keys of entries with time >= `first` (ms)."""
    return EXPIRY + ordered_time(first), after(EXPIRY)
