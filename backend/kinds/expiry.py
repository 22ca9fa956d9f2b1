"""Retention: which entries of a store partition are too old to be answered.

The clock is the partition's own *stream time*: the greatest time of an entry that came so far, so
that a replay gives the same entries; but none that the wall clock has not reached yet
(`ingest.stream_time`). The time of an entry is its record's timestamp (key-value, versioned), its
window's start or its session's end. Otherwise the rules are those of Kafka Streams' stores.

Each entry leaves a note, ordered by time (`records.EXPIRY`), that ingest follows to delete it.
"""

from __future__ import annotations

from collections.abc import Callable

from model.layouts import Range, after
from model.records import ENTRY, EXPIRY, from_ordered_time, ordered_time
from model.views import View

_LEAST = -(1 << 63)
FOREVER = (1 << 63) - 1


def time_of(view: View) -> Callable[[bytes, int], int]:
    """(stored key, record timestamp) -> time of the entry, ms."""
    if view.store == "window":
        return lambda stored_key, timestamp: from_ordered_time(stored_key[-12:-4])
    if view.store == "session":
        return lambda stored_key, timestamp: from_ordered_time(stored_key[-16:-8])
    return lambda stored_key, timestamp: timestamp


def horizon(view: View, stream_time: int | None) -> int:
    """The least time (ms) that is not expired yet."""
    if view.retention is None or stream_time is None:
        return _LEAST
    if view.store in ("window", "session"):
        return stream_time - view.retention + 1
    return stream_time - view.retention


def note(time: int, stored_key: bytes) -> bytes:
    """The key under which an entry's time is noted."""
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
