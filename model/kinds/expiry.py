"""Retention: which entries of a store partition have expired.

The clock is the partition's *stream time*: the greatest time of an entry so far, so that a replay
gives the same entries, but never ahead of the wall clock (`ingest.stream_time`). `Kind.time_of`
defines the time of an entry. Otherwise the rules are those of Kafka Streams' stores.

An index by time (`records.EXPIRY`) has a note for each entry. Ingest uses it to delete expired
entries.
"""

from __future__ import annotations

from model.kinds.layout import Range, after
from model.records import ENTRY, EXPIRY, from_ordered_time, ordered_time

_LEAST = -(1 << 63)
FOREVER = (1 << 63) - 1


def note(time: int, stored_key: bytes) -> bytes:
    """The index key for an entry's time."""
    return EXPIRY + ordered_time(time) + stored_key[1:]


def noted(key: bytes) -> tuple[int, bytes]:
    """The inverse: time (ms) and stored key."""
    return from_ordered_time(key[1:9]), ENTRY + key[9:]


def expired_notes(until: int) -> Range:
    """The notes of entries with time < `until`."""
    return EXPIRY, EXPIRY + ordered_time(max(until, _LEAST))


def notes_until(last: int) -> Range:
    """The notes of entries with time <= `last`."""
    return EXPIRY, after(EXPIRY + ordered_time(last))


def notes_from(first: int) -> Range:
    """The notes of entries with time >= `first`."""
    return EXPIRY + ordered_time(first), after(EXPIRY)
