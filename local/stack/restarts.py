"""When processes that ended by themselves start again."""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST_PAUSE, _MAX_PAUSE = 1.0, 30.0
_RECOVERED = 60.0
"""Seconds after which a process that runs is healthy: its next pause is the first one."""


class Restarts:
    """The pauses (s) of each process: each is twice as long as the one before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pauses: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def ended(self, name: str) -> float:
        """Notes that a process has ended. Returns the seconds until it is due."""
        now = self._clock()
        started = self._started.get(name)
        pause = _FIRST_PAUSE
        if started is not None and now - started < _RECOVERED:
            pause = min(2 * self._pauses[name], _MAX_PAUSE)
        self._pauses[name] = pause
        self._due[name] = now + pause
        return pause

    def take_due(self) -> list[str]:
        """The processes to start now; each is returned once."""
        now = self._clock()
        names = [name for name, due in self._due.items() if due <= now]
        for name in names:
            del self._due[name]
            self._started[name] = now
        return names
