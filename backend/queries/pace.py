"""Makes the steps of expensive queries shorter while keys are read, and lets the queries pause
while they and reads of keys compete for processors.

A read waits for the rest of a step, so for half of its length on average. Short steps cost more,
because the event loop looks at its sockets after each.

If more processes want to run than there are processors, the operating system interrupts a process
that never waits, and the process has to queue for its next time slice. Its readers wait for that,
however short its steps are. A process that pauses between its steps is scheduled soon after a
request arrives. A step was interrupted if it took more time than processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_S = 0.001
"""The length of a step (s). An operating system interrupts a process after a few milliseconds if
other processes wait, so this bounds the wait of most reads."""
_STEP_S_FOR_READERS = 0.0001
_CONTENDED = 1.5  # times the processor time
_SMOOTHING = 0.1  # weight of the last step
_READERS_S = 0.1  # s for which a read counts as recent
_MAX_PAUSE_S = 0.004  # s; the longest pause
# all pauses until the same client is woken again, because other clients wait for answers
_MAX_ROUND_PAUSE_S = 0.02


class Pace:
    """The pace of one event loop. `reads()`: how many reads of keys were answered so far. `step_s`:
    how long the next step may take (s of processor time)."""

    def __init__(
        self,
        reads: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.perf_counter,
        processor_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._reads = reads
        self._clock = clock
        self._processor_clock = processor_clock
        self._began = self._began_cpu = 0.0
        self._took = self._took_cpu = 0.0  # s; of a step, smoothed
        self._unpaused = 0.0  # s of the steps since the last pause, smoothed
        self._read = reads()
        self._read_at = float("-inf")
        self.step_s = STEP_S

    def begin(self) -> None:
        """Note that a step begins."""
        self._began, self._began_cpu = self._clock(), self._processor_clock()

    def pause(self, clients: int) -> float:
        """Note that the step has ended, and return how long to pause before the next one (s). This
        is 0 if there are enough processors, or no client reads keys. It is at most the time that
        the steps since the last pause took. `clients`: how many clients wait."""
        now = self._clock()
        took = now - self._began
        self._took += _SMOOTHING * (took - self._took)
        cpu = self._processor_clock() - self._began_cpu
        self._took_cpu += _SMOOTHING * (cpu - self._took_cpu)
        reads = self._reads()
        if reads != self._read:
            self._read, self._read_at = reads, now
        is_read = now - self._read_at <= _READERS_S
        self.step_s = _STEP_S_FOR_READERS if is_read else STEP_S
        if not is_read or self._took < _CONTENDED * self._took_cpu:
            self._unpaused = 0.0
            return 0.0
        self._unpaused += self._took
        if self._unpaused < STEP_S:  # timers have a resolution of 1 ms
            return 0.0
        pause = min(self._unpaused, _MAX_PAUSE_S, _MAX_ROUND_PAUSE_S / max(1, clients))
        self._unpaused = 0.0
        return pause
