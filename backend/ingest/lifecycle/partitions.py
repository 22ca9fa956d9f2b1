"""Opens, rebuilds and closes store partitions according to the assignment."""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace

from backend.ingest.consumer import SourceAssignments
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.lifecycle.orphan_cleanup import OrphanCleanup
from backend.ingest.lifecycle.recovery import RecoveryPolicy, StoreDeleted, open_partition, verify
from backend.ingest.lifecycle.snapshot_fetcher import SnapshotFetcher
from backend.ingest.metadata.poller import MetadataPoller
from backend.ingest.metadata.topic_metadata import TopicMetadata, open_store_rebuild_reason
from backend.ingest.protocols import StoreDirectory
from backend.ingest.pushes.candidates import PushCandidates
from backend.ingest.store_partitions import PartitionRegistry, StorePartition, StorePartitionId
from backend.ingest.writer import PartitionWriter
from model.problems import StoreError
from model.records import StoreMetadata
from model.topology import ACTIVE
from model.views import View

log = logging.getLogger(__name__)

_TOUCH_EVERY = 30.0  # s
_RETRY_AFTER = 1.0  # s


class PartitionLifecycle:
    """Opens, rebuilds and closes store partitions. Any thread may call `assign`, `opening`
    and `ask_for_rebuild`; only the ingest thread may call the other methods."""

    def __init__(
        self,
        views: Iterable[View],
        directory: StoreDirectory,
        registry: PartitionRegistry,
        metadata_poller: MetadataPoller,
        snapshots: SnapshotFetcher,
        dead_letters: DeadLetters,
        assignments: SourceAssignments,
        writer: PartitionWriter,
        policy: RecoveryPolicy,
        pushes: PushCandidates | None = None,
    ) -> None:
        self._views = {view.name: view for view in views}
        self._directory = directory
        self._registry = registry
        self._metadata_poller = metadata_poller
        self._snapshots = snapshots
        self._dead_letters = dead_letters
        self._assignments = assignments
        self._writer = writer
        self._policy = policy
        self._pushes = pushes
        self._orphans = OrphanCleanup(directory, policy.cleanup_delay)
        self._assigned: Mapping[StorePartitionId, str] = {}
        self._has_assignment = False
        self._opened: Mapping[StorePartitionId, str] = {}
        # other instances answer for these, and may have newer records
        self._shared: set[StorePartitionId] = set()
        self._taken_over: set[StorePartitionId] = set()
        # s, monotonic: a store partition is opened only with metadata from after this time
        self._open_after: dict[StorePartitionId, float] = {}
        # the position at the last check of metadata, and the time of the check (s, monotonic)
        self._previous_positions: dict[StorePartitionId, tuple[int, float]] = {}
        self._deleted: dict[StorePartitionId, StoreMetadata | None] = {}
        self._metadata_seen: dict[str, float] = {}
        self._touched_at = time.monotonic()
        self._dropped: frozenset[str] = frozenset()
        self._has_dropped = False  # whether dropped views may have stores on disk
        self._to_rebuild: deque[StorePartitionId] = deque()
        self.rebuilds = 0
        self.unopened = 0
        """The number of assigned store partitions that the last `reconcile` could not open, and of
        those that were closed since."""

    # any thread

    def assign(
        self,
        assigned: Mapping[StorePartitionId, str],
        shared: Set[StorePartitionId],
        taken_over: Set[StorePartitionId],
        unplaced: Set[str] = frozenset(),
    ) -> None:
        """Set the assigned store partitions and their roles.

        A new store partition becomes answerable at an end offset that is fetched after this call.
        `shared`: store partitions for which other instances answer, or have answered. They must
        reach that offset even if they were answerable before a restart, because the other instances
        may have newer records. `taken_over`: store partitions whose active has changed.
        `unplaced`: topics without partitions in the topology. The leader may have been unable to
        see them, so this instance looks whether they have some.
        """
        now = time.monotonic()
        new = assigned.keys() - self._assigned.keys()
        for partition_id in new:
            # lost, and assigned again before the ingest thread has closed it
            if (opened := self._registry.get(*partition_id)) is not None:
                opened.progress.stop()
        self._shared |= shared
        self._taken_over |= taken_over
        self._open_after.update(dict.fromkeys(new, now))
        self._assigned = assigned
        self._has_assignment = True
        # appends need a topic's number of partitions, even if none of them is assigned here
        appendable = [v for v in self._views.values() if v.append and v.name not in self._dropped]
        topics = {*unplaced, *(view.topic for view in appendable)}
        watched: defaultdict[str, set[int]] = defaultdict(set, {topic: set() for topic in topics})
        for view, partition in assigned:
            watched[self._views[view].topic].add(partition)
        self._metadata_poller.watch(watched)
        self._metadata_poller.refresh()

    def drop(self, views: Set[str]) -> None:
        """Delete the stores of these views as soon as they are no longer assigned."""
        self._dropped = frozenset(views)
        self._has_dropped = bool(views)

    def ask_for_rebuild(self, view: str, partition: int) -> None:
        """Rebuild a store partition soon, if it is open then."""
        self._to_rebuild.append((view, partition))

    def opening(self) -> dict[StorePartitionId, str]:
        """The assigned store partitions that are not open yet, and their roles."""
        assigned = self._assigned
        return {
            partition_id: assigned[partition_id]
            for partition_id in sorted(assigned)
            if self._registry.get(*partition_id) is None
        }

    # the ingest thread

    def reconcile(self, is_stopping: Callable[[], bool]) -> None:
        """Close unassigned store partitions, rebuild damaged ones, and open new ones."""
        assigned = self._assigned
        taken_over, self._taken_over = self._taken_over, set()
        to_rebuild = {self._to_rebuild.popleft() for _ in range(len(self._to_rebuild))}
        for store_partition in self._registry.all():
            partition_id = (store_partition.view.name, store_partition.partition)
            role = assigned.get(partition_id)
            store_partition.role = role or store_partition.role
            self._dead_letters.take(store_partition, is_taken_over=partition_id in taken_over)
            if role is None or store_partition.progress.is_stopped:
                self._release(store_partition)
            elif store_partition.damaged is not None:
                self.rebuild(store_partition, store_partition.damaged, keep_aside=True)
            elif partition_id in to_rebuild:
                self._snapshots.forget(*partition_id)
                self.rebuild(store_partition, "an operator has asked for it")
            elif self._snapshots.is_better(
                store_partition, self._metadata_poller.get(store_partition.view.topic)
            ):
                self._start_again(store_partition)
            else:
                self._update_push(store_partition)
        if self._has_dropped:
            self._delete_dropped(assigned)
        if self._pushes is not None:
            self._pushes.keep(assigned.keys())
        if assigned.keys() == self._opened.keys():
            self.unopened = 0
            return
        opening = self.opening()
        self._snapshots.keep(opening.keys())
        self.unopened = sum(
            is_stopping() or not self._open(*partition_id) for partition_id in opening
        )
        if not self.unopened:
            self._opened = assigned

    def _update_push(self, store_partition: StorePartition) -> None:
        """Replace the store by one with a newer push, if there is one."""
        if self._pushes is None or store_partition.view.push is None:
            return
        topic_metadata = self._metadata_poller.get(store_partition.view.topic)
        if topic_metadata is not None and store_partition.partition not in topic_metadata.ends:
            return  # it is assigned again, and its offsets are not fetched yet
        try:
            if self._pushes.update(store_partition, topic_metadata):
                self._writer.on_state_change()
        except Exception as e:  # any error of the disk or of RocksDB
            name, partition = store_partition.view.name, store_partition.partition
            log.error("view %s, partition %d: installing a push: %s", name, partition, e)
            self._opened = {}  # open what is on disk

    def _open(self, view_name: str, partition: int) -> bool:
        """Open a store partition; False if it must be retried."""
        partition_id = (view_name, partition)
        view = self._views[view_name]
        topic_metadata = self._metadata_poller.get(view.topic)
        if topic_metadata is None or partition not in topic_metadata.ends:
            return False
        if topic_metadata.fetched_at < self._open_after.get(partition_id, 0.0):
            return False
        is_alone = not self._snapshots.has_source(view, partition)
        may_wait = self._assigned.get(partition_id, ACTIVE) != ACTIVE
        if not self._snapshots.has_ended(view, partition, topic_metadata, may_wait):
            return False
        installed_at = self._snapshots.installed_at(view, partition)
        if topic_metadata.fetched_at < installed_at:
            # the snapshot may have records from after the end that was fetched
            self._open_after[partition_id] = installed_at
            self._metadata_poller.refresh()
            return False
        if self._pushes is not None and not self._pushes.has_ended(view, partition, topic_metadata):
            if self._pushes.is_blocked(view, partition):
                self._snapshots.retry(view, partition)
            return False
        policy = self._policy
        try:
            store_partition, reason = open_partition(
                self._directory, view, partition, topic_metadata, policy.acceptable_recovery_lag,
                partition_id in self._shared, policy.clock_tolerance,
                self._pushes.partitions(view) if self._pushes is not None else None,
                self._registry.partition_counts_of_topic(view, topic_metadata.topic_id),
                self._snapshots.may_request(view, partition, topic_metadata),
                self._deleted.get(partition_id), self._registry.may_be_in_several(view),
            )  # fmt: skip
        except StoreDeleted as e:
            self._deleted[partition_id] = e.metadata
            self._count_rebuild(view_name, partition, str(e))
            return False
        except Exception as e:
            log.error("view %s, partition %d: cannot open the store: %s", view_name, partition, e)
            self._open_after[partition_id] = time.monotonic() + _RETRY_AFTER
            return False
        if reason is not None:
            self._count_rebuild(view_name, partition, reason)
        store_partition.role = self._assigned.get(partition_id, store_partition.role)
        store_partition.opened_alone = is_alone
        if store_partition.progress.answerable and not store_partition.metadata.answerable:
            try:
                self._writer.note_answerable(store_partition)
            except StoreError as e:
                self.fail(store_partition, e)
                return False
        self._shared.discard(partition_id)
        self._deleted.pop(partition_id, None)
        self._registry.add(store_partition)
        self._assignments.update(view.topic, partition)
        self._writer.on_state_change()
        return True

    def _delete_dropped(self, assigned: Mapping[StorePartitionId, str]) -> None:
        dropped = self._dropped
        self._has_dropped = any(view in dropped for view, _ in assigned)
        if not self._has_dropped:
            self._orphans.delete_at_once(dropped)

    def _release(self, store_partition: StorePartition) -> None:
        """Close a store partition that is no longer assigned.

        Another instance answers from now on. If the partition is assigned again, it must reach the
        end of the log before it answers.
        """
        store_partition.metadata = replace(store_partition.metadata, answerable=False)
        try:
            self._writer.write_state(store_partition)
        except StoreError as e:
            self.fail(store_partition, e)
        else:
            self.close(store_partition)

    def close(self, store_partition: StorePartition) -> None:
        if self._discard_candidate(store_partition, None):
            return
        self._dead_letters.forget(store_partition)
        self._registry.remove(store_partition)
        self._opened = {}
        self.unopened += 1
        # the known end may have been fetched before the last records were applied
        name, partition = store_partition.view.name, store_partition.partition
        self._open_after[name, partition] = time.monotonic()
        self._previous_positions.pop((name, partition), None)
        self._assignments.update(store_partition.view.topic, store_partition.partition)
        store_partition.close(time.time_ns() // 1_000_000)
        if self._pushes is not None:
            self._pushes.close_retired(partition_id=(name, partition))

    def close_all(self) -> None:
        """Close all store partitions."""
        for store_partition in (*self._registry.candidates(), *self._registry.all()):
            self.close(store_partition)
        if self._pushes is not None:
            self._pushes.close_retired()

    def rebuild(
        self, store_partition: StorePartition, reason: str, keep_aside: bool = False
    ) -> None:
        """Delete the store or set it aside, and open an empty one after the next metadata poll."""
        if self._discard_candidate(store_partition, reason):
            return
        name, partition = store_partition.view.name, store_partition.partition
        if store_partition.progress.answerable:
            # only then; otherwise, a copy that cannot be used might be fetched forever
            self._snapshots.forget(name, partition)
        self._count_rebuild(name, partition, reason)
        self._start_again(store_partition, keep_aside)

    def _start_again(self, store_partition: StorePartition, keep_aside: bool = False) -> None:
        self.close(store_partition)
        name, partition = store_partition.view.name, store_partition.partition
        if keep_aside:
            self._directory.set_aside(name, partition)
        else:
            self._directory.delete(name, partition)
        self._metadata_poller.refresh()

    def fail(self, store_partition: StorePartition, error: StoreError) -> None:
        """Rebuild a damaged store. Reopen it after any other error, such as a full disk, because
        entries and position are consistent."""
        if self._discard_candidate(store_partition, str(error)):
            return
        if error.damaged:
            self.rebuild(store_partition, str(error), keep_aside=True)
            return
        name, partition = store_partition.view.name, store_partition.partition
        log.error("view %s, partition %d: %s", name, partition, error)
        self.close(store_partition)
        self._open_after[name, partition] = time.monotonic() + _RETRY_AFTER

    def _discard_candidate(self, store_partition: StorePartition, error: str | None) -> bool:
        """Discard the store partition if it is a candidate; otherwise return False."""
        if self._pushes is None or not self._pushes.is_candidate(store_partition):
            return False
        self._pushes.discard(store_partition, error)
        return True

    def _count_rebuild(self, view: str, partition: int, reason: str) -> None:
        self.rebuilds += 1
        log.warning("view %s, partition %d is rebuilt: %s", view, partition, reason)

    def check_metadata(self) -> None:
        """Apply the end offsets of new metadata; rebuild stores that no longer match the topic."""
        has_changed = False
        for topic in {view.topic for view in self._views.values()}:
            topic_metadata = self._metadata_poller.get(topic)
            checked = self._metadata_seen.get(topic, 0.0)
            if topic_metadata is None or topic_metadata.fetched_at <= checked:
                continue
            has_changed = True
            self._metadata_seen[topic] = topic_metadata.fetched_at
            for store_partition in self._registry.all():
                if store_partition.view.topic == topic:
                    self._check(store_partition, topic_metadata)
                    if (topic_metadata.added_at or 0.0) > checked:
                        store_partition.end_streams_of_moved_keys(topic_metadata.partitions)
        if has_changed:
            self._writer.on_state_change()

    def _check(self, store_partition: StorePartition, topic_metadata: TopicMetadata) -> None:
        partition_id = (store_partition.view.name, store_partition.partition)
        position = store_partition.progress.position
        before, checked_at = self._previous_positions.get(partition_id, (None, 0.0))
        is_newer = topic_metadata.fetched_at >= checked_at
        reason = open_store_rebuild_reason(
            store_partition.partition,
            position,
            before if is_newer else None,
            store_partition.metadata,
            topic_metadata,
        )
        if reason is not None:
            self.rebuild(store_partition, reason)
        elif (end := topic_metadata.ends.get(store_partition.partition)) is not None:
            if is_newer:
                self._previous_positions[partition_id] = position, time.monotonic()
            fetched_at = topic_metadata.fetched_boot_time
            high = topic_metadata.high_watermarks.get(store_partition.partition)
            store_partition.progress.end_fetched(end, fetched_at, high)
            store_partition.completeness.end_fetched(end, position, fetched_at)

    def verify_again(self) -> None:
        """Compare the last record of all stores with the log; meanwhile they answer as before."""
        for store_partition in (*self._registry.all(), *self._registry.candidates()):
            topic = store_partition.view.topic
            verify(store_partition, self._metadata_poller.get(topic))
            self._assignments.update(topic, store_partition.partition)

    def touch(self) -> None:
        """Update `alive_at` and `complete_at` of the stores, and clean up unassigned ones, every
        30 s."""
        now = time.monotonic()
        if now - self._touched_at < _TOUCH_EVERY:
            return
        self._touched_at = now
        for store_partition in self._registry.all():
            alive_at = time.time_ns() // 1_000_000
            store_partition.metadata = replace(
                store_partition.metadata,
                alive_at=alive_at,
                complete_at=store_partition.completeness.to_store(alive_at),
            )
            try:
                self._writer.write_state(store_partition)
            except StoreError as e:
                self.fail(store_partition, e)
        if self._has_assignment:  # without a topology, it is not known which stores are needed
            kept = self._registry.views_without_partitions
            self._orphans.clean_up(self._assigned.keys(), kept, now)
