"""A time limit that is moved often and expires rarely."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable


class Deadline:
    """Calls `expired` once the time is over. Moving it later costs no call of the event loop."""

    __slots__ = ("_at", "_expired", "_handle", "_loop", "_wakes_at")

    def __init__(self, loop: AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._at: float | None = None
        self._handle: TimerHandle | None = None
        self._wakes_at = 0.0

    def set(self, seconds: float) -> None:
        """From now on; replaces the time limit that was set before."""
        self._at = at = self._loop.time() + seconds
        if self._handle is None or at < self._wakes_at:
            self._wake(at)

    def clear(self) -> None:
        """No time limit."""
        self._at = None

    def close(self) -> None:
        """As `clear`, and nothing refers to `expired` any more."""
        self._at = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._wakes_at = at
        self._handle = self._loop.call_later(at - self._loop.time(), self._look)

    def _look(self) -> None:
        self._handle = None
        if self._at is None:
            return
        if self._at > self._loop.time():
            self._wake(self._at)
            return
        self._at = None
        self._expired()
