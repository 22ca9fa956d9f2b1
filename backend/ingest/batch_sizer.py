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
    """Large batches while a store partition catches up and no reads are served; else small ones."""

    def __init__(self, reads_served: Callable[[], int]) -> None:
        self._reads_served = reads_served
        self._reads = 0  # served so far
        self._changed_at = 0.0  # when that number last changed

    def batch_size(self, store_partitions: Iterable[StorePartition]) -> int:
        """The number of records to fetch next."""
        now = time.monotonic()
        reads = self._reads_served()
        if reads != self._reads:
            self._reads, self._changed_at = reads, now
        if now - self._changed_at < _QUIET_AFTER:
            return _BATCH
        is_catching_up = any(not partition.progress.answerable for partition in store_partitions)
        return _BULK_BATCH if is_catching_up else _BATCH
