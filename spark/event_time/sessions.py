"""Session windows of one key, updated as events arrive: functions without a Spark session.

The rules are those of Kafka Streams' session windows. An event belongs to a session if it is at
most the gap before or after it, or within it. A late event can join two sessions.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

INT64_MAX = 2**63 - 1
"""The limit of sums of bytes, which are written as int64."""

_PACKED = struct.Struct(">qqqq")


class Joinable(Protocol):
    """A session: times (ms) of its first and last event."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    def joined(self, later: Self) -> Self:
        """One session made of this one and ``later``, which does not start before this one."""


S = TypeVar("S", bound=Joinable)


class Session(NamedTuple):
    """Times (ms) of the first and last request, number of requests, and bytes sent."""

    start: int
    end: int
    requests: int
    bytes: int

    def joined(self, later: Session) -> Session:
        return Session(
            self.start,
            max(self.end, later.end),
            self.requests + later.requests,
            min(self.bytes + later.bytes, INT64_MAX),
        )


def updated(
    state: GroupState,
    new: Iterable[S],
    gap: int,
    unpack: Callable[[bytes], list[S]],
    pack: Callable[[list[S]], bytes],
) -> tuple[list[S], list[S]]:
    """The changes that the ``new`` sessions make to the sessions of a key: those to delete, and
    those that are new or longer. The state has the sessions that an event can still change."""
    before = unpack(state.get[0]) if state.exists else []
    after = merged(before if state.hasTimedOut else [*before, *new], gap)
    # No event older than the watermark can arrive.
    watermark = state.getCurrentWatermarkMs()
    unfinished = [session for session in after if session.end + gap >= watermark]
    if unfinished:
        state.update((pack(unfinished),))
        state.setTimeoutTimestamp(unfinished[-1].end + gap + 1)
    elif state.exists:
        state.remove()
    # Spark's concatenation of frames causes this warning.
    warnings.filterwarnings("ignore", "The behavior of DataFrame concat", FutureWarning)
    changed = [session for session in after if session not in before]
    return list(removed(before, after)), changed


def merged(sessions: Iterable[S], gap: int) -> list[S]:
    """Joins sessions that are at most ``gap`` ms apart. The result is sorted by time. A single
    event is also a session."""
    joined: list[S] = []
    for session in sorted(sessions, key=lambda session: (session.start, session.end)):
        last = joined[-1] if joined else None
        if last is None or session.start - last.end > gap:
            joined.append(session)
        else:
            joined[-1] = last.joined(session)
    return joined


def removed(before: Iterable[S], after: Iterable[S]) -> Iterator[S]:
    """The sessions of ``before`` whose start and end are not in ``after``."""
    remaining = {(session.start, session.end) for session in after}
    return (session for session in before if (session.start, session.end) not in remaining)


def packed(sessions: Iterable[Session]) -> bytes:
    """Encodes each session as 32 bytes: four int64, big-endian."""
    return b"".join(_PACKED.pack(*session) for session in sessions)


def unpacked(content: bytes) -> list[Session]:
    """The inverse of ``packed``."""
    return [Session(*numbers) for numbers in _PACKED.iter_unpack(content)]
