"""The batch size of ingest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from backend.ingest.store_partitions import StorePartition

# While reads are served, a write may hold the interpreter lock only briefly: about 2 ms a batch.
_BATCH = 500
_BULK_BATCH = 4000
_QUIET_AFTER = 1.0  # s without a read


class BatchSizer:
    """Small batches while reads are served or everything is caught up; else large batches."""

    def __init__(self, reads_served: Callable[[], int]) -> None:
        self._reads_served = reads_served
        self._reads = (0, 0.0)  # reads served, and when that number last changed

    def batch_size(self, store_partitions: Iterable[StorePartition]) -> int:
        now = time.monotonic()
        served = self._reads_served()
        if served != self._reads[0]:
            self._reads = (served, now)
        if now - self._reads[1] < _QUIET_AFTER:
            return _BATCH
        return _BATCH if all(each.progress.answerable for each in store_partitions) else _BULK_BATCH
