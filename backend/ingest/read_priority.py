"""Lets reads run while ingest applies records: smaller batches, and pauses between them.

A read waits for the interpreter lock while ingest computes or writes: for 0.5 ms, in which ingest
does not release it by itself, and again after each callback of the event loop. During a pause, the
event loop takes the lock, and answers all reads that wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from backend.ingest.store_partitions import StorePartition

_FETCH = 500  # records, while reads are served
_BULK_FETCH = 4000
_BATCH = 40  # records, about 0.2 ms
_PAUSE = 50e-6  # s; with the kernel's timer slack and a switch, 0.1 ms
_QUIET_AFTER = 1.0  # s without a read

_Record = TypeVar("_Record")


class ReadPriority:
    """The sizes of fetches and batches. Only the ingest thread may use it."""

    def __init__(self, reads_served: Callable[[], int]) -> None:
        """`reads_served()`: the number of reads so far. Reads are served now if it grows."""
        self._reads_served = reads_served
        self._reads = 0  # served so far
        self._changed_at = 0.0  # when that number last changed

    def fetch_size(self, store_partitions: Iterable[StorePartition]) -> int:
        """The number of records to fetch next: many only while a store partition catches up and no
        reads are served."""
        if self._are_reads_served():
            return _FETCH
        is_catching_up = any(not partition.progress.answerable for partition in store_partitions)
        return _BULK_FETCH if is_catching_up else _FETCH

    def batches(self, run: Sequence[_Record], fetched: int) -> Iterator[Sequence[_Record]]:
        """Yield the records of one partition in batches, after a pause for each if reads are
        served. `fetched`: the records of all partitions. If they are a full fetch, ingest lags, and
        the batch is not split."""
        if not self._are_reads_served():
            yield run
            return
        size = _BATCH if fetched < _FETCH else max(len(run), 1)
        for start in range(0, len(run), size):
            time.sleep(_PAUSE)
            yield run[start : start + size]

    def _are_reads_served(self) -> bool:
        now = time.monotonic()
        reads = self._reads_served()
        if reads != self._reads:
            self._reads, self._changed_at = reads, now
        return now - self._changed_at < _QUIET_AFTER
