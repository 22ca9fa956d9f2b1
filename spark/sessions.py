"""Sessions of one key, followed as its events come: pure functions, without Spark.

The rules are those of Kafka Streams' session windows: an event belongs to a session when it is no
farther from it than the gap, before, within or behind; a late one can join two sessions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MOST = 2**63 - 1
"""Sums of bytes stay there: they are written as int64."""

_PACKED = struct.Struct(">qqqq")


class Session(NamedTuple):
    """Times (ms) of the first and the last request, how many there were, and bytes sent."""

    start: int
    end: int
    requests: int
    bytes: int


def merged(sessions: Iterable[Session], gap: int) -> list[Session]:
    """In order of time; those at most ``gap`` ms apart are one. A request alone is one, too."""
    found: list[Session] = []
    for each in sorted(sessions):
        last = found[-1] if found else None
        if last is None or each.start - last.end > gap:
            found.append(each)
        else:
            found[-1] = Session(
                last.start,
                max(last.end, each.end),
                last.requests + each.requests,
                min(last.bytes + each.bytes, MOST),
            )
    return found


def gone(before: Iterable[Session], after: Iterable[Session]) -> Iterator[Session]:
    """Those sessions that were there and, by start and end, are no more."""
    remaining = {(each.start, each.end) for each in after}
    return (each for each in before if (each.start, each.end) not in remaining)


def packed(sessions: Iterable[Session]) -> bytes:
    """32 bytes a session."""
    return b"".join(_PACKED.pack(*each) for each in sessions)


def unpacked(content: bytes) -> list[Session]:
    """The inverse."""
    return [Session(*numbers) for numbers in _PACKED.iter_unpack(content)]
