"""Applies fetched records to store partitions, and deletes expired entries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from backend.ingest.batch import DeadLetter, build_batch, from_offset
from backend.ingest.consumer import Fetched, Source, SourceAssignments
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.expiry import expiry_batch
from backend.ingest.indexes.partition_indexes import IndexedBatch
from backend.ingest.indexes.work import WORK, IndexWork
from backend.ingest.lifecycle.partitions import PartitionLifecycle
from backend.ingest.metadata.poller import MetadataPoller
from backend.ingest.mispartitioned import confirmed_mispartitioned, known_counts
from backend.ingest.protocols import Record
from backend.ingest.read_priority import ReadPriority
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.ingest.stream_time import advance, max_stream_time
from backend.ingest.writer import PartitionWriter
from model.machine.clock import boot_time
from model.problems import StoreError
from model.records import LastRecord, StoreMetadata

_RELEASE_AFTER = 5.0  # s after compaction of loaded files began; it takes memory as well


class RecordApplier:
    """Applies records to store partitions. Only the ingest thread may use it."""

    def __init__(
        self,
        registry: PartitionRegistry,
        lifecycle: PartitionLifecycle,
        metadata_poller: MetadataPoller,
        dead_letters: DeadLetters,
        assignments: SourceAssignments,
        writer: PartitionWriter,
        read_priority: ReadPriority,
        clock_tolerance: float,
        release_free_memory: Callable[[], None],
    ) -> None:
        """`clock_tolerance` (s): how far stream time may be ahead of the clock.
        `release_free_memory()`: gives free memory back to the operating system. Loads leave much of
        it."""
        self._registry = registry
        self._lifecycle = lifecycle
        self._metadata_poller = metadata_poller
        self._dead_letters = dead_letters
        self._assignments = assignments
        self._writer = writer
        self._read_priority = read_priority
        self._tolerance = clock_tolerance
        self._release_free_memory = release_free_memory
        self._index_work = IndexWork(writer, read_priority)
        self._release_at: float | None = None  # s, monotonic

    def apply(self, fetched: Fetched) -> None:
        """Apply the records and log ends. Rebuild store partitions whose position is no longer in
        the log.

        After a disconnection the brokers may have another log: then all stores are verified first,
        and everything is fetched again.
        """
        if fetched.disconnected:
            self._lifecycle.verify_again()
            return
        self._read_priority.begin(is_lagging=fetched.is_full)
        for source, records in fetched.records.items():
            for store_partition in self._registry.for_source(*source):
                with self._guard(store_partition):
                    new = from_offset(records, store_partition.fetch_offset)
                    for run in self._read_priority.batches(new, store_partition.indexes):
                        if not self._apply_run(store_partition, run):
                            break
        for source, end in fetched.ends.items():
            for store_partition in self._registry.for_source(*source):
                with self._guard(store_partition):
                    self._advance(store_partition, end)
        for source in (*fetched.lost, *fetched.truncated):
            for store_partition in self._without_records(source):
                last = store_partition.to_verify
                if (
                    last is not None
                    and store_partition.progress.answerable
                    and source not in fetched.truncated
                    and self._begins_after(source, last.offset)
                ):
                    store_partition.to_verify = None
                    self._assignments.update(*source)
                    continue
                offset = store_partition.fetch_offset
                self._lifecycle.rebuild(
                    store_partition, f"the log no longer has offset {offset}, or has changed"
                )
        for source in fetched.unreadable:
            self._assignments.pause(source)

    def _begins_after(self, source: Source, offset: int) -> bool:
        """Whether the log begins after this offset now. A log that does not have the offset, and
        does not begin after it, ends before it."""
        topic, partition = source
        topic_metadata = self._metadata_poller.fresh(topic)
        return topic_metadata is not None and topic_metadata.starts.get(partition, 0) > offset

    def _without_records(self, source: Source) -> list[StorePartition]:
        """The store partitions whose next record is lost. They are behind the others, for example
        because they have a newer push. The consumer was reading at their offset, and is moved to
        the offset of the others afterwards."""
        store_partitions = self._registry.for_source(*source)
        first = min((p.fetch_offset for p in store_partitions), default=0)
        return [p for p in store_partitions if p.fetch_offset == first]

    def _apply_run(self, store_partition: StorePartition, run: Sequence[Record]) -> bool:
        """Apply records of one partition, in offset order. One batch has the changes and the
        position after them. Raises StoreError.

        Returns whether the next records may be applied: False if the store partition is rebuilt, or
        waits for a schema. True also if all records in `run` were applied before.
        """
        if (last := store_partition.to_verify) is not None:
            if not (at_last := from_offset(run, last.offset)):
                return True
            if not self._verify(store_partition, last, at_last[0]):
                return False
        run = from_offset(run, store_partition.progress.position)
        if not run:
            return True
        if (reason := self._missed_tombstones(store_partition)) is not None:
            self._lifecycle.rebuild(store_partition, reason)
            return False
        view, store = store_partition.view, store_partition.store
        batch = store.new_batch()
        topic_metadata = self._metadata_poller.get(view.topic)
        counts = known_counts(store_partition, topic_metadata, self._registry)
        stores_tombstone = self._registry.tombstone_filter(store_partition, counts)
        indexes = store_partition.indexes
        indexed = None if indexes is None else IndexedBatch(batch)
        result = build_batch(
            indexed or batch,
            view,
            run,
            store.stream_time,
            max_stream_time(self._tolerance),
            stores_tombstone,
        )
        store_partition.earliest_future_time = min(
            store_partition.earliest_future_time, result.earliest_future_time
        )
        if result.missing_schema is not None:
            # the records before it are applied; other views of the topic continue
            store_partition.waiting_for = result.missing_schema
            self._assignments.update(view.topic, store_partition.partition)
            run = run[: result.stopped_at]
            if not run:
                return False
        if indexes is not None and indexed is not None:
            indexes.add_entries(indexed)
        newest = run[-1]
        mispartitioned = confirmed_mispartitioned(
            store_partition, result.keys, counts, self._metadata_poller, self._registry
        )
        new_metadata = self._update_metadata(
            store_partition, newest, mispartitioned, result.dead_letters
        )
        self._writer.write(
            store_partition,
            batch,
            newest.offset() + 1,
            new_metadata,
            result.stream_time,
            _identify(newest),
        )
        store_partition.applied_records += len(result.keys)
        if store_partition.listeners:
            horizon = view.kind.horizon(view, store.stream_time)
            store_partition.listeners.applied(
                result.rows, view.layout, result.dead_letters, horizon
            )
        return result.missing_schema is None

    def _update_metadata(
        self,
        store_partition: StorePartition,
        newest: Record,
        mispartitioned: int,
        dead_letters: list[DeadLetter],
    ) -> StoreMetadata | None:
        """Count a run of records, which ends with `newest`, in the metadata. Returns it if it has
        changed, else None. Call this before the records are written: readers must know of a
        mispartitioned record before they can miss it."""
        before = metadata = store_partition.metadata
        epoch = newest.leader_epoch()
        if epoch is not None and epoch != metadata.leader_epoch:
            metadata = replace(metadata, leader_epoch=epoch)
        if mispartitioned:
            if not before.mispartitioned:
                store_partition.warn_of_mispartitioned(newest.offset())
            metadata = replace(metadata, mispartitioned=metadata.mispartitioned + mispartitioned)
        if dead_letters:
            self._dead_letters.take(store_partition, dead_letters)
            metadata = _with_dead_letters(metadata, dead_letters)
        store_partition.metadata = metadata
        if mispartitioned and not before.mispartitioned:
            self._registry.end_streams(store_partition.view.name)
            self._writer.on_state_change()
        return None if metadata is before else metadata

    def _missed_tombstones(self, store_partition: StorePartition) -> str | None:
        """Why the store partition must be rebuilt instead of going on: tombstones before the next
        records may be gone. None if it may go on."""
        topic_metadata = self._metadata_poller.get(store_partition.view.topic)
        retention = None if topic_metadata is None else topic_metadata.delete_retention
        return store_partition.completeness.rebuild_reason(retention)

    def _verify(self, store_partition: StorePartition, last: LastRecord, record: Record) -> bool:
        """Compare the last record that was applied with the log. `record`: the record at its
        offset, or the first one after it. Returns False if the store partition is rebuilt.

        Topic ids, offsets and leader epochs do not always show that the disks of the brokers were
        restored to an older state. After that, new records get the offsets of lost ones.
        """
        # if `record` has a later offset, the one at this offset was compacted away
        if record.offset() == last.offset and _identify(record) != last:
            self._lifecycle.rebuild(
                store_partition,
                f"the log has another record at offset {last.offset} than the one that was applied",
            )
            return False
        self._writer.verified(store_partition)
        return True

    def _advance(self, store_partition: StorePartition, offset: int) -> None:
        """Move the position to the end of the log. There may be no record right before the end:
        transaction markers and compacted records also have offsets."""
        last = store_partition.to_verify
        if last is not None and offset > last.offset:
            self._writer.verified(store_partition)  # the log no longer has the record
        position = max(offset, store_partition.progress.position)
        now = boot_time()
        reason = self._missed_tombstones(store_partition)
        if position > store_partition.progress.position and reason is not None:
            self._lifecycle.rebuild(store_partition, reason)
            return
        if position > store_partition.progress.position or not store_partition.progress.answerable:
            self._writer.write(store_partition, store_partition.store.new_batch(), position)
        # the store has all records, even if the metadata cannot be polled. But after a long pause,
        # the end may be from before the pause
        if reason is None:
            store_partition.completeness.end_fetched(offset, position, now)

    def expire(self) -> None:
        """Delete some expired entries of each store partition whose view has a retention, and do
        some of the work on its indexes. Finish loads, and release the memory that they have left.
        """
        until = time.monotonic() + WORK
        for candidate in self._registry.candidates():
            with self._guard(candidate):
                self._index_work.run(candidate, until)
        for store_partition in self._registry.all():
            # this runs for all partitions ten times a second: `_guard` would take most of the time
            try:
                if store_partition.store.finish_load():
                    self._release_at = time.monotonic() + _RELEASE_AFTER
                if store_partition.view.retention is not None:
                    self._expire(store_partition)
                self._index_work.run(store_partition, until)
            except StoreError as e:
                self._lifecycle.fail(store_partition, e)
        if self._release_at is not None and time.monotonic() >= self._release_at:
            self._release_at = None
            self._release_free_memory()

    def _expire(self, store_partition: StorePartition) -> None:
        advance(store_partition, max_stream_time(self._tolerance))
        in_several = self._registry.may_be_in_several(store_partition.view)
        batch = expiry_batch(store_partition, in_several)
        if batch is not None:
            self._writer.write(store_partition, batch, store_partition.progress.position)

    @contextmanager
    def _guard(self, store_partition: StorePartition) -> Iterator[None]:
        """Keep an error of one store partition from stopping the others."""
        try:
            yield
        except StoreError as e:
            self._lifecycle.fail(store_partition, e)


def _with_dead_letters(metadata: StoreMetadata, letters: list[DeadLetter]) -> StoreMetadata:
    values = sum(letter.is_stored for letter in letters)
    keys = sum(not letter.is_of_value for letter in letters)
    return replace(
        metadata,
        dead_letters=metadata.dead_letters + len(letters),
        unreadable_values=metadata.unreadable_values + values,
        unreadable_keys=metadata.unreadable_keys + keys,
    )


def _identify(record: Record) -> LastRecord:
    return LastRecord.from_record(
        record.offset(), record.timestamp()[1], record.key(), record.value()
    )
