"""Opens, rebuilds and closes store partitions according to the assignment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace

from backend.ingest.consumer import SourceAssignments
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.lifecycle.orphan_cleanup import OrphanCleanup, Unit
from backend.ingest.lifecycle.recovery import open_partition
from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher
from backend.ingest.metadata_poller import MetadataPoller
from backend.ingest.protocols import Folder
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.ingest.stream_time import TOLERANCE
from backend.ingest.topic_metadata import TopicMetadata, why_rebuild_open
from backend.ingest.writer import PartitionWriter
from model.problems import StoreError
from model.views import View

log = logging.getLogger(__name__)

_TOUCH_EVERY = 30.0  # s
_RETRY_AFTER = 1.0  # s


@dataclass(frozen=True)
class RecoveryPolicy:
    """When an existing store is used, and when it is deleted."""

    acceptable_recovery_lag: int  # records: with at most this lag, it may answer at once
    cleanup_delay: float  # s that a store stays on disk after its partition moved away
    clock_tolerance: float = TOLERANCE  # s by which stream time may be ahead of the clock


class PartitionLifecycle:
    """Opens, rebuilds and closes store partitions. `assign` may be called from any thread, all
    other methods only from the ingest thread."""

    def __init__(
        self,
        views: Iterable[View],
        folder: Folder,
        registry: PartitionRegistry,
        metadata_poller: MetadataPoller,
        snapshots: SnapshotFetcher,
        dead_letters: DeadLetters,
        assignments: SourceAssignments,
        writer: PartitionWriter,
        policy: RecoveryPolicy,
    ) -> None:
        self._views = {view.name: view for view in views}
        self._folder = folder
        self._registry = registry
        self._metadata_poller = metadata_poller
        self._snapshots = snapshots
        self._dead_letters = dead_letters
        self._assignments = assignments
        self._writer = writer
        self._policy = policy
        self._orphans = OrphanCleanup(folder, policy.cleanup_delay)
        self._wanted: Mapping[Unit, str] = {}
        self._opened: Mapping[Unit, str] = {}
        self._shared: set[Unit] = set()  # other instances answer: the store here may be behind
        self._taken_over: set[Unit] = set()
        self._not_before: dict[Unit, float] = {}  # metadata must be newer, retries later
        self._positions_before: dict[Unit, int] = {}  # when the last metadata came
        self._metadata_seen: dict[str, float] = {}
        self._touched_at = time.monotonic()
        self.rebuilds = 0

    # any thread

    def assign(self, wanted: Mapping[Unit, str], shared: Set[Unit], taken_over: Set[Unit]) -> None:
        """Set the assigned store partitions and their roles.

        A new one must reach an end offset that is fetched after this call. One of `shared`, for
        which other instances answer or have answered, must do so even if it was answerable before a
        restart, because the others may have newer records. `taken_over`: partitions whose active
        has changed.
        """
        now = time.monotonic()
        self._shared |= shared
        self._taken_over |= taken_over
        self._not_before.update(dict.fromkeys(wanted.keys() - self._wanted.keys(), now))
        self._wanted = wanted
        self._metadata_poller.watch(frozenset(self._views[view].topic for view, _ in wanted))
        self._metadata_poller.refresh()

    def opening(self) -> dict[Unit, str]:
        """The assigned store partitions that are not open yet, and their roles."""
        wanted = self._wanted
        return {unit: wanted[unit] for unit in sorted(wanted) if self._registry.get(*unit) is None}

    # the ingest thread

    def reconcile(self, is_stopping: Callable[[], bool]) -> None:
        """Close unassigned store partitions, rebuild damaged ones, and open new ones."""
        wanted = self._wanted
        taken_over, self._taken_over = self._taken_over, set()
        for store_partition in self._registry.all():
            unit = (store_partition.view.name, store_partition.partition)
            role = wanted.get(unit)
            store_partition.role = role or store_partition.role
            self._dead_letters.take(store_partition, is_taken_over=unit in taken_over)
            if role is None:
                self._release(store_partition)
            elif store_partition.damaged is not None:
                self.rebuild(store_partition, store_partition.damaged, keep_aside=True)
        if wanted.keys() == self._opened.keys():
            return
        self._snapshots.keep({unit for unit in wanted if self._registry.get(*unit) is None})
        waiting = False
        for unit in sorted(wanted):
            if self._registry.get(*unit) is None and not is_stopping():
                waiting = not self._open(*unit) or waiting
        if not waiting:
            self._opened = wanted

    def _open(self, view_name: str, partition: int) -> bool:
        """Open a store partition; False if it must be retried."""
        unit = (view_name, partition)
        view = self._views[view_name]
        topic_metadata = self._metadata_poller.get(view.topic)
        if topic_metadata is None or topic_metadata.fetched_at < self._not_before.get(unit, 0.0):
            return False
        if partition not in topic_metadata.ends:
            return False
        if not self._snapshots.has_ended(view, partition, topic_metadata):
            return False
        policy = self._policy
        try:
            store_partition, reason = open_partition(
                self._folder,
                view,
                partition,
                topic_metadata,
                policy.acceptable_recovery_lag,
                unit in self._shared,
                policy.clock_tolerance,
            )
        except Exception as e:
            log.error("view %s, partition %d: cannot open the store: %s", view_name, partition, e)
            self._not_before[unit] = time.monotonic() + _RETRY_AFTER
            return False
        if reason is not None:
            self._count_rebuild(view_name, partition, reason)
        store_partition.role = self._wanted.get(unit, store_partition.role)
        if store_partition.progress.answerable and not store_partition.metadata.answerable:
            self._writer.note_answerable(store_partition)
        self._shared.discard(unit)
        self._registry.add(store_partition)
        self._assignments.update(view.topic, partition)
        self._writer.on_news()
        return True

    def _release(self, store_partition: StorePartition) -> None:
        """Close a store partition that is no longer assigned. Another instance answers from now on:
        if the partition comes back, it must reach the end of the log before it answers."""
        store_partition.metadata = replace(store_partition.metadata, answerable=False)
        try:
            self._writer.write_state(store_partition)
        except StoreError as e:
            self.fail(store_partition, e)
        else:
            self.close(store_partition)

    def close(self, store_partition: StorePartition) -> None:
        self._registry.remove(store_partition)
        self._opened = {}
        self._assignments.update(store_partition.view.topic, store_partition.partition)
        store_partition.close(time.time_ns() // 1_000_000)

    def rebuild(
        self, store_partition: StorePartition, reason: str, keep_aside: bool = False
    ) -> None:
        """Delete the store, or set it aside, and reopen it after the next metadata poll."""
        self.close(store_partition)
        name, partition = store_partition.view.name, store_partition.partition
        clear = self._folder.set_aside if keep_aside else self._folder.delete
        clear(name, partition)
        self._count_rebuild(name, partition, reason)
        self._not_before[(name, partition)] = time.monotonic()
        self._positions_before.pop((name, partition), None)
        self._metadata_poller.refresh()

    def fail(self, store_partition: StorePartition, error: StoreError) -> None:
        """Rebuild a damaged store. After any other error, such as a full disk, reopen it: entries
        and position are consistent."""
        if error.damaged:
            self.rebuild(store_partition, str(error), keep_aside=True)
            return
        log.error(
            "view %s, partition %d: %s", store_partition.view.name, store_partition.partition, error
        )
        self.close(store_partition)
        self._not_before[store_partition.view.name, store_partition.partition] = (
            time.monotonic() + _RETRY_AFTER
        )

    def _count_rebuild(self, view: str, partition: int, reason: str) -> None:
        self.rebuilds += 1
        log.warning("view %s, partition %d is rebuilt: %s", view, partition, reason)

    def compare_with_metadata(self) -> None:
        """Apply the end offsets of new metadata; rebuild stores that no longer match the topic."""
        new = False
        for topic in {view.topic for view in self._views.values()}:
            topic_metadata = self._metadata_poller.get(topic)
            if topic_metadata is None or topic_metadata.fetched_at <= self._metadata_seen.get(
                topic, 0.0
            ):
                continue
            new = True
            self._metadata_seen[topic] = topic_metadata.fetched_at
            for store_partition in self._registry.all():
                if store_partition.view.topic == topic:
                    self._compare(store_partition, topic_metadata)
        if new:
            self._writer.on_news()

    def _compare(self, store_partition: StorePartition, topic_metadata: TopicMetadata) -> None:
        unit, position = (
            (store_partition.view.name, store_partition.partition),
            store_partition.progress.position,
        )
        before = self._positions_before.get(unit)
        reason = why_rebuild_open(
            store_partition.partition, position, before, store_partition.metadata, topic_metadata
        )
        if reason is not None:
            self.rebuild(store_partition, reason)
        elif (end := topic_metadata.ends.get(store_partition.partition)) is not None:
            self._positions_before[unit] = position
            store_partition.progress.end_fetched(end, topic_metadata.fetched_at)

    def touch(self) -> None:
        """Every 30 s: update `alive_at` of the stores, and clean up unassigned ones."""
        now = time.monotonic()
        if now - self._touched_at < _TOUCH_EVERY:
            return
        self._touched_at = now
        for store_partition in self._registry.all():
            store_partition.metadata = replace(
                store_partition.metadata, alive_at=time.time_ns() // 1_000_000
            )
            try:
                self._writer.write_state(store_partition)
            except StoreError as e:
                self.fail(store_partition, e)
        self._orphans.clean_up(self._wanted.keys(), now)
