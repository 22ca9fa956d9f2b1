"""Which store partitions are open: opened, rebuilt and closed as the assignment says."""

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
    """When a store partition is good enough to go on with, and when it is deleted."""

    acceptable_recovery_lag: int  # records: no more than these behind, it may answer at once
    cleanup_delay: float  # s that a store partition stays on disk after it moved away
    clock_tolerance: float = TOLERANCE  # s by which stream time may be ahead of the clock


class PartitionLifecycle:
    """Opens, rebuilds and closes store partitions. `assign` comes from any thread, the rest is
    called by the ingest thread alone."""

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
        self._shared: set[Unit] = set()  # other instances answer: what is stored here may be old
        self._taken_over: set[Unit] = set()
        self._not_before: dict[Unit, float] = {}  # metadata must be newer, retries later
        self._positions_before: dict[Unit, int] = {}  # when the last metadata came
        self._metadata_seen: dict[str, float] = {}
        self._touched_at = time.monotonic()
        self.rebuilds = 0

    # any thread

    def assign(self, wanted: Mapping[Unit, str], shared: Set[Unit], taken_over: Set[Unit]) -> None:
        """From now on hold exactly these store partitions, in these roles.

        A new one has to reach an end offset that is fetched from now on. One of `shared`, for which
        other instances answer or have answered, has to do so even if it was answerable before a
        restart: the others have read newer records. `taken_over`: the active was another instance.
        """
        now = time.monotonic()
        self._shared |= shared
        self._taken_over |= taken_over
        self._not_before.update(dict.fromkeys(wanted.keys() - self._wanted.keys(), now))
        self._wanted = wanted
        self._metadata_poller.watch(frozenset(self._views[view].topic for view, _ in wanted))
        self._metadata_poller.refresh()

    def opening(self) -> dict[Unit, str]:
        """The assigned store partitions that are not open yet, with their roles."""
        wanted = self._wanted
        return {unit: wanted[unit] for unit in sorted(wanted) if self._registry.get(*unit) is None}

    # the ingest thread

    def reconcile(self, is_stopping: Callable[[], bool]) -> None:
        """Close what is not assigned any more, rebuild what is damaged, open what is missing."""
        wanted = self._wanted
        taken_over, self._taken_over = self._taken_over, set()
        for held in self._registry.all():
            unit = (held.view.name, held.partition)
            role = wanted.get(unit)
            held.role = role or held.role
            self._dead_letters.take(held, is_taken_over=unit in taken_over)
            if role is None:
                self._let_go(held)
            elif held.damaged is not None:
                self.rebuild(held, held.damaged, keep_aside=True)
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
        """Open one; False if it has to be tried again."""
        unit = (view_name, partition)
        view = self._views[view_name]
        metadata = self._metadata_poller.facts(view.topic)
        if metadata is None or metadata.fetched_at < self._not_before.get(unit, 0.0):
            return False
        if partition not in metadata.ends:
            return False
        if not self._snapshots.has_ended(view, partition, metadata):
            return False
        policy = self._policy
        try:
            held, reason = open_partition(
                self._folder,
                view,
                partition,
                metadata,
                policy.acceptable_recovery_lag,
                unit in self._shared,
                policy.clock_tolerance,
            )
        except Exception as e:
            log.error("view %s, partition %d cannot be opened: %s", view_name, partition, e)
            self._not_before[unit] = time.monotonic() + _RETRY_AFTER
            return False
        if reason is not None:
            self._count_rebuild(view_name, partition, reason)
        held.role = self._wanted.get(unit, held.role)
        if held.progress.answerable and not held.identity.answerable:
            self._writer.note_answerable(held)
        self._shared.discard(unit)
        self._registry.add(held)
        self._assignments.update(view.topic, partition)
        self._writer.on_news()
        return True

    def _let_go(self, held: StorePartition) -> None:
        """Another instance answers from now on, from newer records: if the store partition comes
        back, it has to reach the end first, however near that is."""
        held.identity = replace(held.identity, answerable=False)
        try:
            self._writer.write_state(held)
        except StoreError as e:
            self.fail(held, e)
        else:
            self.close(held)

    def close(self, held: StorePartition) -> None:
        self._registry.remove(held)
        self._opened = {}
        self._assignments.update(held.view.topic, held.partition)
        held.close(time.time_ns() // 1_000_000)

    def rebuild(self, held: StorePartition, reason: str, keep_aside: bool = False) -> None:
        """Delete the store partition, or set it aside, and start again once there is newer
        metadata."""
        self.close(held)
        name, partition = held.view.name, held.partition
        clear = self._folder.set_aside if keep_aside else self._folder.delete
        clear(name, partition)
        self._count_rebuild(name, partition, reason)
        self._not_before[(name, partition)] = time.monotonic()
        self._positions_before.pop((name, partition), None)
        self._metadata_poller.refresh()

    def fail(self, held: StorePartition, error: StoreError) -> None:
        """Rebuild a damaged store partition. After any other error, such as a full disk, open it
        again: entries and position are in step."""
        if error.damaged:
            self.rebuild(held, str(error), keep_aside=True)
            return
        log.error("view %s, partition %d: %s", held.view.name, held.partition, error)
        self.close(held)
        self._not_before[held.view.name, held.partition] = time.monotonic() + _RETRY_AFTER

    def _count_rebuild(self, view: str, partition: int, reason: str) -> None:
        self.rebuilds += 1
        log.warning("view %s, partition %d is rebuilt: %s", view, partition, reason)

    def compare_with_metadata(self) -> None:
        """Take the end offsets of new metadata; rebuild what does not fit the topic any more."""
        new = False
        for topic in {view.topic for view in self._views.values()}:
            metadata = self._metadata_poller.facts(topic)
            if metadata is None or metadata.fetched_at <= self._metadata_seen.get(topic, 0.0):
                continue
            new = True
            self._metadata_seen[topic] = metadata.fetched_at
            for held in self._registry.all():
                if held.view.topic == topic:
                    self._compare(held, metadata)
        if new:
            self._writer.on_news()

    def _compare(self, held: StorePartition, metadata: TopicMetadata) -> None:
        unit, position = (held.view.name, held.partition), held.progress.position
        before = self._positions_before.get(unit)
        reason = why_rebuild_open(held.partition, position, before, held.identity, metadata)
        if reason is not None:
            self.rebuild(held, reason)
        elif (end := metadata.ends.get(held.partition)) is not None:
            self._positions_before[unit] = position
            held.progress.end_fetched(end, metadata.fetched_at)

    def touch(self) -> None:
        """Every 30 s: note that the stores are in use, and delete those that moved away."""
        now = time.monotonic()
        if now - self._touched_at < _TOUCH_EVERY:
            return
        self._touched_at = now
        for held in self._registry.all():
            held.identity = replace(held.identity, alive_at=time.time_ns() // 1_000_000)
            try:
                self._writer.write_state(held)
            except StoreError as e:
                self.fail(held, e)
        self._orphans.clean_up(self._wanted.keys(), now)
