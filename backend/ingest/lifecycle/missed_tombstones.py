"""Notices that a store may have missed tombstones, because it did not read its log for too long.

Compaction removes a tombstone `delete.retention.ms` after it was written. If reading stops for
longer, because the broker cannot be reached or the process is stopped, the tombstones in between
may be gone when it resumes, and the deleted keys would stay in the store.
"""

from __future__ import annotations

from model.machine.clock import boot_time
from model.progress import OldestEnd

# s that a store may be behind even if `delete.retention.ms` is smaller: otherwise, each burst of
# records would lead to a rebuild
_TOLERATED = 60.0
# ms: if a store was complete less than this time before `alive_at`, the time is not stored: also a
# store that keeps up is a few polls behind
_RECENT = 10_000


def tolerated(delete_retention: int) -> float:
    """How long (s) a store may lack some records of its log. `delete_retention`:
    `delete.retention.ms`."""
    return max(_TOLERATED, delete_retention / 1000)


def longest_poll_interval(delete_retention: int) -> float:
    """The longest time (s) between two polls of the log's end with which a store that keeps up is
    not rebuilt. While the topic is written all the time, one poll finds an end, the next poll finds
    that the store has reached it, and only the third poll finds a later end. So two intervals pass.
    The rest is for slow answers of the broker."""
    return tolerated(delete_retention) / 4


class Completeness:
    """The latest time at which a store had all records of its log. Only the ingest thread uses it.

    A store that has never been complete is replayed, however long that takes. Times are s of
    `boot_time`, and in metadata ms of the wall clock.
    """

    __slots__ = ("_at", "_oldest_end")

    def __init__(self, at: float | None = None) -> None:
        """`at`: when it had all records; None if it never had."""
        self._at = at
        self._oldest_end = OldestEnd()

    @staticmethod
    def stored(at_ms: int | None, now_ms: int) -> Completeness:
        """The completeness of a store that is opened. `at_ms`: None if it never had all records."""
        if at_ms is None:
            return Completeness()
        return Completeness(boot_time() - max(0, now_ms - at_ms) / 1000)

    def to_store(self, now_ms: int) -> int | None:
        """The value for `StoreMetadata.complete_at`, if `alive_at` is `now_ms`."""
        if self._at is None:
            return 0
        behind = round((boot_time() - self._at) * 1000)
        return None if behind <= _RECENT else max(1, now_ms - behind)

    def end_fetched(self, end: int, position: int, at: float) -> None:
        """Note that the log ended at `end` at the time `at` or later, and that the store has all
        records before `position`. The machine may have been suspended since `at`."""
        reached_at = self._oldest_end.fetched(end, position, at)
        # a first replay that took long is complete when it reaches a recent end
        if reached_at is not None and (self._at is not None or at - reached_at <= _TOLERATED):
            self._at = reached_at

    def rebuild_reason(self, delete_retention: int | None) -> str | None:
        """The reason to rebuild the store rather than to continue with the next record; else None.
        `delete_retention`: `delete.retention.ms`; None if the topic is not compacted."""
        if self._at is None or delete_retention is None:
            return None
        behind = boot_time() - self._at
        if behind <= tolerated(delete_retention):
            return None
        return (
            f"it did not have all records for {behind:.0f} s: tombstones may be lost "
            f"(delete.retention.ms={delete_retention})"
        )
