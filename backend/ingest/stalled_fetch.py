"""Notices that the consumer fetches nothing from a partition that has records.

librdkafka sometimes stops fetching a partition forever after its broker was restarted, without an
error; a new consumer fetches it (librdkafka's issue 5153).
"""

from __future__ import annotations

from collections.abc import Callable

from backend.ingest.store_partitions import PartitionRegistry, StorePartitionId
from model.machine.clock import boot_time

_INTERVAL = 1.0  # s between two checks
_MIN_CHECKS, _MAX_CHECKS = 15, 300


class StalledFetch:
    """A counter of checks that found no progress. Only the ingest thread may use it. It counts
    checks instead of seconds, because a write may block the thread, and then no check is made."""

    def __init__(
        self,
        registry: PartitionRegistry,
        trusted_for: float,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        """`trusted_for`: s for which an end of a log is trusted. `clock`: s, of `boot_time`."""
        self._registry = registry
        self._trusted_for = trusted_for
        self._clock = clock
        self._checked_at = clock()
        self._limit = _MIN_CHECKS
        # store partitions that need records: their position, and the number of checks that have
        # found them there
        self._behind: dict[StorePartitionId, tuple[int, int]] = {}

    def stalled(self) -> StorePartitionId | None:
        """A store partition for which the consumer should be replaced, or None. For too long, it
        has been behind its log at the same position, or its last record has not been compared with
        the log. Call this often. After each result, the limit is twice as long until all have
        caught up, because large records or a quota of the broker may be the reason."""
        now = self._clock()
        if now - self._checked_at < _INTERVAL:
            return None
        self._checked_at = now
        before, self._behind = self._behind, {}
        for store_partition in self._registry.all():
            progress = store_partition.progress
            lag = progress.lag(now, self._trusted_for)
            has_records = lag is not None and (lag > 0 or store_partition.to_verify is not None)
            if not has_records or store_partition.waiting_for is not None:
                continue
            id_ = store_partition.view.name, store_partition.partition
            position, checks = before.get(id_, (-1, 0))
            checks = checks + 1 if position == progress.position else 1
            self._behind[id_] = progress.position, checks
            if checks > self._limit:
                self._behind = {}
                self._limit = min(2 * self._limit, _MAX_CHECKS)
                return id_
        if not self._behind:
            self._limit = _MIN_CHECKS
        return None
