"""A timeout that is reset often and expires rarely."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable


class Deadline:
    """Calls `expired` once after the timeout. Setting it to a later time calls no event loop
    function but `time`."""

    __slots__ = ("_at", "_expired", "_loop", "_timer", "_timer_at")

    def __init__(self, loop: AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._at: float | None = None
        self._timer: TimerHandle | None = None
        self._timer_at = 0.0

    def set(self, seconds: float) -> None:
        """Start the timeout now, instead of the previous one."""
        self._at = at = self._loop.time() + seconds
        if self._timer is None or at < self._timer_at:
            self._start_timer(at)

    @property
    def at(self) -> float | None:
        """When the timeout ends, in the event loop's time; None if there is none."""
        return self._at

    def clear(self) -> None:
        """Cancel the timeout."""
        self._at = None

    def close(self) -> None:
        """Cancel the timeout and drop the reference to `expired` in the event loop."""
        self._at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(at - self._loop.time(), self._check)

    def _check(self) -> None:
        self._timer = None
        if self._at is None:
            return
        if self._at > self._loop.time():
            self._start_timer(self._at)
            return
        self._at = None
        self._expired()
