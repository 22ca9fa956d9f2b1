"""How far a store partition is, how fresh, and whether it may answer.

Times are seconds of one monotonic clock, given by the caller. Written by the ingest and watcher
threads, read without a lock by the event loop: every field is replaced whole.
"""

from __future__ import annotations

from typing import Final

ANSWERABLE: Final = "answerable"
CATCHING_UP: Final = "catching-up"


class Progress:
    """One store partition's position against the end of its log.

    `position` is the next offset to apply. `end` is the end of the log as last fetched from the
    broker (the last stable offset: what a read_committed reader can reach), None before the first
    time. It becomes answerable by reaching `goal`, and does not become unanswerable again by lag.
    """

    __slots__ = ("_pending_at", "_pending_end", "answerable", "caught_up_at", "end", "end_at",
                 "goal", "position", "started_position")  # fmt: skip

    def __init__(self, position: int, goal: int, answerable: bool) -> None:
        self.position = position
        self.started_position = position
        self.goal = goal
        self.answerable = answerable or position >= goal
        self.end: int | None = None
        self.end_at: float | None = None
        self.caught_up_at: float | None = None
        self._pending_end = goal
        self._pending_at: float | None = None

    def applied(self, position: int) -> bool:
        """The store has reached `position`. True if that made it answerable."""
        self.position = position
        if self._pending_at is not None and position >= self._pending_end:
            # all that was in the log at that time has been applied
            self.caught_up_at = self._pending_at
            self._pending_at = None
        if not self.answerable and position >= self.goal:
            self.answerable = True
            return True
        return False

    def end_fetched(self, end: int, now: float) -> None:
        """The broker said at `now` that the log ends at `end`."""
        self.end = end
        self.end_at = now
        if self.position >= end:
            self.caught_up_at = now
            self._pending_at = None
        elif self._pending_at is None:
            # keep the oldest end not yet reached: under a constant stream of records a newer one
            # would never be reached, and staleness would grow though little is missing
            self._pending_end = end
            self._pending_at = now

    @property
    def state(self) -> str:
        return ANSWERABLE if self.answerable else CATCHING_UP

    def lag(self, now: float, trusted_for: float) -> int | None:
        """Records (offsets) behind the end; None while no end was fetched for `trusted_for` s."""
        if self.end is None or self.end_at is None or now - self.end_at > trusted_for:
            return None
        return max(0, self.end - self.position)

    def staleness(self, now: float) -> float | None:
        """Seconds since it last was at a freshly fetched end; None if it never was."""
        return None if self.caught_up_at is None else max(0.0, now - self.caught_up_at)
