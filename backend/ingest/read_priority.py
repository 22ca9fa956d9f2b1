"""Lets point reads run while ingest applies records: smaller batches, and pauses between them.

A read needs the interpreter lock. If ingest has it, the read waits for 0.5 ms, and may wait again
after each callback of the event loop. During a pause, the event loop takes the lock, and answers
all reads that wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from backend.ingest.indexes.partition_indexes import PartitionIndexes
from backend.ingest.store_partitions import StorePartition

_FETCH = 500  # records, while reads are served
_BULK_FETCH = 4000
_BATCH = 40  # records, about 0.2 ms
_KEYS = 8  # keys of indexes that a record of such a batch may have on average
_WORK, _WORK_IF_LAGGING = 0.2e-3, 1e-3  # s between two pauses
_PAUSE = 50e-6  # s; with the kernel's timer slack and a switch, 0.1 ms
_QUIET_AFTER = 1.0  # s without a read

_Record = TypeVar("_Record")


class ReadPriority:
    """The sizes of fetches and batches, and the pauses between batches, while point reads are
    served. Only the ingest thread may use it."""

    def __init__(self, reads_served: Callable[[], int]) -> None:
        """`reads_served()`: the number of point reads so far. They are served now if it grows."""
        self._reads_served = reads_served
        self._reads = 0  # served so far
        self._changed_at = 0.0  # when that number last changed
        self._pauses = False  # whether to pause while this fetch is applied
        self._is_lagging = False
        self._worked_since = 0.0  # s, monotonic: the end of the last pause

    def fetch_size(self, store_partitions: Iterable[StorePartition]) -> int:
        """The number of records to fetch next. It is large only while a store partition catches up
        and no reads are served."""
        if self._notice_reads():
            return _FETCH
        is_catching_up = any(not partition.progress.answerable for partition in store_partitions)
        return _BULK_FETCH if is_catching_up else _FETCH

    def begin(self, is_lagging: bool) -> None:
        """Call this before the records of a fetch are applied. `is_lagging`: there are more records
        than fit into the fetch, so runs are not split into batches, and there are fewer pauses."""
        self._pauses = self._notice_reads()
        self._is_lagging = is_lagging

    def batches(
        self, run: Sequence[_Record], indexes: PartitionIndexes | None
    ) -> Iterator[Sequence[_Record]]:
        """Yield the records of one partition in batches. If reads are served, pause before a
        batch when the last pause was some time ago. `indexes`: those of the partition; batches are
        smaller if records have many keys in them."""
        start = 0
        while start < len(run):
            if self._pauses:
                self._pause()
            end = start + self._size(len(run), indexes)
            yield run[start:end]
            start = end

    def _size(self, run: int, indexes: PartitionIndexes | None) -> int:
        size = _BATCH if self._pauses and not self._is_lagging else run
        if indexes is None:
            return size
        keys = indexes.keys_each(indexes.ids)
        if self._pauses and keys > _KEYS:
            size = max(int(min(size, _FETCH) * _KEYS / keys), 1)
        return min(size, indexes.most_entries)

    def _pause(self) -> None:
        work = _WORK_IF_LAGGING if self._is_lagging else _WORK
        if time.monotonic() - self._worked_since >= work:
            time.sleep(_PAUSE)
            self._worked_since = time.monotonic()

    def _notice_reads(self) -> bool:
        """Whether reads are served now."""
        now = time.monotonic()
        reads = self._reads_served()
        if reads != self._reads:
            self._reads, self._changed_at = reads, now
        return now - self._changed_at < _QUIET_AFTER
