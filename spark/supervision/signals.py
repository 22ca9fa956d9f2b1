"""SIGTERM and SIGINT as events of the supervisor's loop."""

from __future__ import annotations

import signal
from queue import SimpleQueue
from types import FrameType

from spark.supervision.events import Event, Events, StopRequested


class StopSignal:
    """Before ``started``, a signal ends the process; afterwards it is a ``StopRequested`` event."""

    def __init__(self) -> None:
        self.events: Events = SimpleQueue[Event]()
        self._starting = True

    def install(self) -> None:
        """Installs the handlers. Call it again after the session's start, which handles SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def started(self) -> None:
        """Call when the supervisor's loop reads events: signals are events from now on."""
        self._starting = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._starting:
            self._starting = False
            raise SystemExit(0)
        self.events.put(StopRequested())
