"""The position of a store partition, its freshness, and whether it may answer.

Times are in seconds, from one clock that also runs while the machine is suspended. The caller
passes them in. The ingest thread writes. The event loop reads without a lock, because fields are
replaced, never modified.
"""

from __future__ import annotations

from typing import Final

ANSWERABLE: Final = "answerable"
CATCHING_UP: Final = "catching-up"


class OldestEnd:
    """The oldest end of a log that a reader has not reached yet, and when the log ended there.

    The oldest one is kept because, with constant writes, the newest one would never be reached. The
    reader would seem to fall further and further behind although its lag is small.
    """

    __slots__ = ("_end", "_ended_at")

    def __init__(self) -> None:
        self._end = 0
        self._ended_at: float | None = None  # None: all known ends are reached

    def passed(self, position: int) -> float | None:
        """The time at which the log ended there, if the reader has now reached that end. Otherwise
        None. `position`: the next offset to read. Hot path."""
        ended_at = self._ended_at
        if ended_at is None or position < self._end:
            return None
        self._ended_at = None
        return ended_at

    def fetched(self, end: int, position: int, ended_at: float) -> float | None:
        """Record that the log ended at `end` at the time `ended_at`. Returns the latest time at
        which the reader had all records, if a later one is known now. Otherwise None."""
        if position >= end:
            self._ended_at = None
            return ended_at
        reached_at = self.passed(position)
        if self._ended_at is None:
            self._end, self._ended_at = end, ended_at
        return reached_at


class Progress:
    """The position of a store partition relative to the end of its log.

    `position` is the next offset to apply. `end` is the end of the log, as last fetched from the
    broker (the last stable offset, which read_committed consumers can reach); None before the first
    fetch. While a transaction is open, the log continues after `end`, up to the high watermark:
    these records count for the staleness, not for the lag. The store partition becomes answerable
    at `target_offset`, or immediately if it is `answerable` from the start, and stays answerable
    with any lag, until `stop`. If it is not `verified` from the start, it does not answer before
    `verify`.
    """

    __slots__ = ("_answers_from", "_held_since", "_oldest_end", "_verified", "answerable",
                 "caught_up_at", "end", "end_at", "is_stopped", "position",
                 "started_position", "target_offset")  # fmt: skip

    def __init__(
        self, position: int, target_offset: int, answerable: bool, verified: bool = True
    ) -> None:
        self.position = position
        self.started_position = position
        self.target_offset = target_offset
        self._answers_from = position if answerable else target_offset
        self._verified = verified
        self.is_stopped = False
        self.answerable = verified and position >= self._answers_from
        self.end: int | None = None
        self.end_at: float | None = None
        self.caught_up_at: float | None = None
        self._held_since: float | None = None
        self._oldest_end = OldestEnd()

    def applied(self, position: int) -> bool:
        """Record that the store has reached `position`. Returns True if it became answerable."""
        self.position = position
        if (caught_up_at := self._oldest_end.passed(position)) is not None:
            self.caught_up_at = caught_up_at
        return self._update_answerable()

    def verify(self) -> bool:
        """Record that the log continues where the store ends. Returns True if the store partition
        became answerable."""
        self._verified = True
        return self._update_answerable()

    def _update_answerable(self) -> bool:
        if self.answerable or self.is_stopped or not self._verified:
            return False
        if self.position < self._answers_from:
            return False
        self.answerable = True
        if self.is_stopped:  # by another thread, since the check above
            self.answerable = False
        return self.answerable

    def stop(self) -> None:
        """Make the store partition unanswerable forever. Any thread may call this."""
        self.is_stopped = True
        self.answerable = False

    def end_fetched(self, end: int, now: float, high: int | None = None) -> None:
        """Record that the log ended at `end` at the time `now`, or a moment later. `high`: the high
        watermark, fetched at the same time; None: no transaction is open."""
        log_end = end if high is None else max(end, high)
        if log_end == end:
            self._held_since = None
        elif self._held_since is None or end != self.end:
            self._held_since = now
        if self.end_at is not None and now > self.end_at and end < self.target_offset:
            # the log was truncated: it may never reach the target offset
            self.target_offset = end
            self._answers_from = min(self._answers_from, end)
        self.end = end
        self.end_at = now
        if (caught_up_at := self._oldest_end.fetched(log_end, self.position, now)) is not None:
            self.caught_up_at = caught_up_at

    @property
    def open_transaction(self) -> float | None:
        """Seconds for which a transaction has held readers back, as of the last fetch; None if no
        transaction does. It is known only from the second fetch on, because the high watermark may
        be a moment newer than the end."""
        held_since, fetched_at = self._held_since, self.end_at
        if held_since is None or fetched_at is None or fetched_at <= held_since:
            return None
        return fetched_at - held_since

    @property
    def state(self) -> str:
        return ANSWERABLE if self.answerable else CATCHING_UP

    def freshness(self, now: float, trusted_for_s: float) -> tuple[int | None, float | None]:
        """The results of `lag` and `staleness`. Hot path."""
        end, end_at, caught_up_at = self.end, self.end_at, self.caught_up_at
        lag = None
        if end is not None and end_at is not None and now - end_at <= trusted_for_s:
            lag = end - self.position
            if lag < 0:
                lag = 0
        if caught_up_at is None:
            return lag, None
        return lag, (now - caught_up_at if now > caught_up_at else 0.0)

    def lag(self, now: float, trusted_for_s: float) -> int | None:
        """The number of offsets behind the end; None if no end was fetched in the last
        `trusted_for` s."""
        return self.freshness(now, trusted_for_s)[0]

    def staleness(self, now: float) -> float | None:
        """The age of the data in seconds: the store has all records that were in the log at that
        time. None if it never had the whole log."""
        return self.freshness(now, 0.0)[1]
