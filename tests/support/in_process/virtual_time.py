"""An event loop whose clock jumps to the next timer, so that minutes take milliseconds.

Like uvloop, it runs timers whose time has come in the order in which they were set, together with
other callbacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Its time begins at 0, and passes only while nothing can run. Nothing in it may wait for
    anything but timers."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-9
        selector: Any = self._selector  # type: ignore[attr-defined]
        select = selector.select

        def select_now(timeout: float | None) -> Any:
            events = select(0)
            if not events and timeout is None:
                raise RuntimeError("nothing can run, and there is no timer")
            if not events and timeout:
                self._now += timeout
            return events

        selector.select = select_now

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        if when <= self._now:
            return self.call_soon(callback, *args, context=context)
        return super().call_at(when, callback, *args, context=context)


def run_in_virtual_time(main: Coroutine[Any, Any, _Result]) -> _Result:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
