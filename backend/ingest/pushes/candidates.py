"""Replaces the stores of open store partitions by stores with a newer push.

A *candidate* is a store that was made of a push. Ingest applies the live records from the push's
offsets to it, while the current store continues to answer. When the candidate has reached the
position of the current store, it becomes the store of the partition. So neither the position nor
an answer goes back in time. After a crash, there is one of the two stores.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Set
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from backend.ingest.consumer import SourceAssignments
from backend.ingest.indexes.partition_indexes import open_indexes
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.pushes.push_fetcher import PushFetcher
from backend.ingest.store_partitions import PartitionRegistry, StorePartition, StorePartitionId
from backend.ingest.stream_time import advance, max_stream_time
from model.machine.clock import boot_time
from model.progress import Progress
from model.topology import STANDBY
from model.views import View

log = logging.getLogger(__name__)

_RETIRED_FOR = 5.0  # s that a replaced store stays open for the reads that have begun
_NEVER = (1 << 63) - 1  # an offset that no log reaches


@dataclass
class _Retired:
    """A replaced store partition, its folder, and when it may be closed (s, monotonic)."""

    store_partition: StorePartition
    path: Path | None
    until: float


class CandidateDirectory(Protocol):
    """The data directory."""

    def open_snapshot(self, snapshot: Path) -> Any: ...

    def replace(self, snapshot: Path, view: str, partition: int) -> Path | None: ...

    def discard(self, snapshot: Path) -> None: ...


class PushCandidates:
    """The candidates of this instance. Only the ingest thread may use it."""

    def __init__(
        self,
        fetcher: PushFetcher,
        directory: CandidateDirectory,
        registry: PartitionRegistry,
        assignments: SourceAssignments,
        clock_tolerance: float,
    ) -> None:
        """`clock_tolerance` (s): how far stream time may be ahead of the clock."""
        self._fetcher = fetcher
        self._directory = directory
        self._registry = registry
        self._assignments = assignments
        self._tolerance = clock_tolerance
        self._paths: dict[StorePartitionId, Path] = {}
        self._retired: list[_Retired] = []

    def keep(self, assigned: Set[StorePartitionId]) -> None:
        """Discard the transfers and candidates of all other store partitions."""
        self._fetcher.keep(assigned)
        self.close_retired(time.monotonic())
        for candidate in self._registry.candidates():
            current = self._registry.get(candidate.view.name, candidate.partition)
            if (candidate.view.name, candidate.partition) not in assigned or current is None:
                self.discard(candidate)

    def has_ended(self, view: View, partition: int, topic_metadata: TopicMetadata) -> bool:
        """Whether a store partition can be opened now: see PushFetcher."""
        return self._fetcher.has_ended(view, partition, topic_metadata)

    def partitions(self, view: View) -> int | None:
        """The number of partitions that the topic had at the newest push; None without a push."""
        return self._fetcher.partitions(view)

    def is_blocked(self, view: View, partition: int) -> bool:
        """Whether the push that a store partition waits for cannot be fetched now."""
        return self._fetcher.is_blocked(view, partition)

    def update(self, current: StorePartition, topic_metadata: TopicMetadata | None) -> bool:
        """Make a candidate if there is a newer push; install it when it has caught up. Returns
        whether it was installed. Raises OSError and the errors of RocksDB."""
        view, partition = current.view, current.partition
        candidate = self._registry.candidate(view.name, partition)
        if candidate is not None:
            is_built = candidate.indexes is None or not candidate.indexes.is_building
            if candidate.progress.position >= current.progress.position and is_built:
                try:
                    self._install(current, candidate)
                except Exception as e:  # for example a full disk; the current store stays
                    self.discard(candidate, f"{type(e).__name__}: {e}")
                    raise
                return True
        elif topic_metadata is not None:
            path = self._fetcher.take(view, partition, current.metadata.push, topic_metadata)
            if path is not None:
                self._begin(current, path)
        return False

    def _begin(self, current: StorePartition, path: Path) -> None:
        view, partition = current.view, current.partition
        try:
            store = self._directory.open_snapshot(path)
            indexes = open_indexes(view, store)
        except Exception as e:  # rocksdict raises plain exceptions
            log.error("view %s, partition %d: cannot open the push: %s", view.name, partition, e)
            self._directory.discard(path)
            self._fetcher.put_back(view, partition, f"{type(e).__name__}: {e}")
            return
        candidate = StorePartition(
            view,
            partition,
            store,
            # only `_install` makes it answerable
            Progress(store.position, target_offset=_NEVER, answerable=False),
            store.metadata,
            boot_time(),
            role=STANDBY,  # the current store partition writes the dead letters
            indexes=indexes,
        )
        advance(candidate, max_stream_time(self._tolerance))
        self._paths[view.name, partition] = path
        self._registry.add_candidate(candidate)
        self._assignments.update(view.topic, partition)
        log.info(
            "view %s, partition %d: push %s is at offset %d, applying records up to %d", view.name,
            partition, candidate.metadata.push, store.position, current.progress.position,
        )  # fmt: skip

    def _install(self, current: StorePartition, candidate: StorePartition) -> None:
        """Replace the current store partition, between two reads."""
        view, partition = current.view, current.partition
        now = time.monotonic()
        # a copy: if this fails, the current store goes on from its own position
        progress, position = copy(current.progress), candidate.progress.position
        if candidate.to_verify is None:
            progress.verify()  # the current store may not have been verified yet
        progress.applied(position)
        now_ms = time.time_ns() // 1_000_000
        metadata = replace(
            candidate.metadata,
            answerable=progress.answerable,
            alive_at=now_ms,
            complete_at=current.completeness.to_store(now_ms),
        )
        candidate.store.write(candidate.store.new_batch(), position, metadata)
        path = self._paths[view.name, partition]
        replaced = self._directory.replace(path, view.name, partition)
        del self._paths[view.name, partition]
        installed = StorePartition(
            view,
            partition,
            candidate.store,
            progress,
            metadata,
            current.opened_at,
            role=current.role,
            applied_records=current.applied_records,
            earliest_future_time=candidate.earliest_future_time,
            to_verify=candidate.to_verify,
            waiting_for=candidate.waiting_for,
            unsent=current.unsent,
            completeness=current.completeness,
            indexes=candidate.indexes,
        )
        self._registry.remove_candidate(candidate)
        self._registry.add(installed)
        self._retired.append(_Retired(current, replaced, now + _RETIRED_FOR))
        current.listeners.close()
        log.info(
            "view %s, partition %d: push %s is installed, at offset %d", view.name, partition,
            metadata.push, position,
        )  # fmt: skip

    def close_retired(
        self, now: float = float("inf"), partition_id: StorePartitionId | None = None
    ) -> None:
        """Close and delete the replaced stores that no read uses any more; by default, all.

        `partition_id`: only those of this store partition. This is necessary before the store
        partition is opened again, because its store then gets the folder name of the replaced one.
        """
        for retired in [retired for retired in self._retired if retired.until <= now]:
            store_partition = retired.store_partition
            if partition_id not in (None, (store_partition.view.name, store_partition.partition)):
                continue
            self._retired.remove(retired)
            store_partition.store.close()
            if retired.path is not None:
                self._directory.discard(retired.path)

    def is_candidate(self, store_partition: StorePartition) -> bool:
        return (
            self._registry.candidate(store_partition.view.name, store_partition.partition)
            is store_partition
        )

    def discard(self, candidate: StorePartition, error: str | None = None) -> None:
        """Delete a candidate. `error`: why it cannot be used; the push is fetched again later."""
        self._registry.remove_candidate(candidate)
        self._assignments.update(candidate.view.topic, candidate.partition)
        candidate.store.close()
        self._directory.discard(self._paths.pop((candidate.view.name, candidate.partition)))
        if error is not None:
            self._fetcher.put_back(candidate.view, candidate.partition, error)
