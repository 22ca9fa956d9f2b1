"""How much of the stores one scan request may read, and when it yields to other requests."""

from __future__ import annotations

import time

from backend.queries.scans import partition_run
from backend.queries.scans.partition_run import PartitionRun
from backend.queries.turns import step_s

MAX_ENTRIES = 50_000  # per response
MAX_BYTES = 64 << 20
# s per response; a sender assumes that an instance hangs if it is silent for longer
# (`retry.WHILE_OTHERS_ARE_LEFT`)
MAX_SECONDS = 0.1
YIELD_AFTER = 1_000  # entries; or partition_run.CHUNK_BYTES
_FIRST_CHUNK = 8  # entries; their values may be large
# A step ends after this part of its time: a chunk takes nearly as long as a step, so with another
# chunk the step would take twice as long.
_STEP_PART = 0.6
_FEW_BYTES = 4096  # of an entry: a chunk of fewer than _FIRST_CHUNK would not end sooner


class ScanBudget:
    """Counts what a request has read.

    `chunk`: how many entries to read next. `examined`: the entries read so far. `by_plan`: the
    same, by plan.
    """

    def __init__(self, max_examined: int | None = None) -> None:
        """`max_examined`: a lower limit than MAX_ENTRIES."""
        self._max_entries = min(MAX_ENTRIES, max_examined or MAX_ENTRIES)
        self.chunk = _FIRST_CHUNK
        self.examined = 0
        self.by_plan: dict[str, int] = {}
        self._bytes = 0
        self._deadline = time.monotonic() + MAX_SECONDS
        self.begin_step()

    def begin_step(self) -> None:
        """Call after each turn."""
        self._since_yield = self._bytes_since_yield = 0
        self._step_s = step_s()
        self._step_began = time.thread_time()

    def has_step_ended(self) -> bool:
        """Whether the event loop should serve other requests now, because of the time."""
        return time.thread_time() - self._step_began >= _STEP_PART * self._step_s

    def is_spent(self) -> bool:
        """Whether the response has to end here."""
        if self.examined >= self._max_entries or self._bytes >= MAX_BYTES:
            return True
        return time.monotonic() >= self._deadline

    def count_chunk(self, run: PartitionRun) -> bool:
        """Count the last chunk of `run`. True if the event loop should serve other requests now."""
        self.examined += run.got
        self.by_plan[run.plan] = self.by_plan.get(run.plan, 0) + run.got
        self._bytes += run.got_bytes
        self._since_yield += run.got
        self._bytes_since_yield += run.got_bytes
        took = time.thread_time() - self._step_began
        if self.examined:
            average = self._bytes // self.examined + 1
            speed = self._since_yield / max(took, 1e-6)  # of this step
            in_step = int(speed * self._step_s)
            fitting = min(YIELD_AFTER, partition_run.CHUNK_BYTES // average, in_step)
            self.chunk = max(_FIRST_CHUNK if average < _FEW_BYTES else 1, fitting)
        left = self._max_entries - self.examined
        self.chunk = min(self.chunk, max(left, 1))
        return (
            took >= _STEP_PART * self._step_s
            or self._since_yield >= YIELD_AFTER
            or self._bytes_since_yield >= partition_run.CHUNK_BYTES
        )
