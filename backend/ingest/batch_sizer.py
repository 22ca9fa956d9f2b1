"""How many records ingest takes at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from backend.ingest.store_partitions import StorePartition

# While reads are served, a write may hold the interpreter only shortly: some 2 ms a batch.
_BATCH = 500
_BULK_BATCH = 4000
_QUIET_AFTER = 1.0  # s without a read


class BatchSizer:
    """Small batches while somebody reads or all is caught up; large ones while far behind and
    alone."""

    def __init__(self, reads_served: Callable[[], int]) -> None:
        self._reads_served = reads_served
        self._reads = (0, 0.0)  # served, and when that number was new

    def batch_size(self, held: Iterable[StorePartition]) -> int:
        now = time.monotonic()
        served = self._reads_served()
        if served != self._reads[0]:
            self._reads = (served, now)
        if now - self._reads[1] < _QUIET_AFTER:
            return _BATCH
        return _BATCH if all(each.progress.answerable for each in held) else _BULK_BATCH
