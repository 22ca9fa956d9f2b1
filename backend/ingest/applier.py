"""Applying what was fetched: records to batches, batches to store partitions, and expiry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from backend.ingest.batch import Record, build_batch
from backend.ingest.consumer import Fetched, SourceAssignments
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.expiry import expired
from backend.ingest.lifecycle.partitions import PartitionLifecycle
from backend.ingest.metadata_poller import MetadataPoller
from backend.ingest.mispartitioned import count_misplaced, known_counts
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.ingest.stream_time import advance, reached
from backend.ingest.writer import PartitionWriter
from model.problems import StoreError


class RecordApplier:
    """Used by the ingest thread alone."""

    def __init__(
        self,
        registry: PartitionRegistry,
        lifecycle: PartitionLifecycle,
        metadata_poller: MetadataPoller,
        dead_letters: DeadLetters,
        assignments: SourceAssignments,
        writer: PartitionWriter,
        clock_tolerance: float,
    ) -> None:
        """`clock_tolerance` (s): how far stream time may be ahead of the clock."""
        self._registry = registry
        self._lifecycle = lifecycle
        self._metadata_poller = metadata_poller
        self._dead_letters = dead_letters
        self._assignments = assignments
        self._writer = writer
        self._tolerance = clock_tolerance

    def apply(self, fetched: Fetched) -> None:
        """Apply records, then ends of the log; rebuild what the log does not have any more."""
        for source, records in fetched.records.items():
            for held in self._registry.fed_by(*source):
                with self._guard(held):
                    self.apply_run(held, records)
        for source, end in fetched.ends.items():
            for held in self._registry.fed_by(*source):
                with self._guard(held):
                    self._advance(held, end)
        for source in fetched.lost:
            for held in self._registry.fed_by(*source):
                position = held.progress.position
                self._lifecycle.rebuild(
                    held, f"the log has no offset {position} any more, or another record"
                )

    def apply_run(self, held: StorePartition, run: Sequence[Record]) -> None:
        """Apply records of one partition, in offset order: one batch with the position behind them.

        StoreError.
        """
        position = run[-1].offset() + 1
        if position <= held.progress.position:
            return
        view = held.view
        batch, store, identity = held.store.new_batch(), held.store, held.identity
        counts = known_counts(held, self._metadata_poller.facts(view.topic))
        kept = self._registry.keeps_delete(held, counts)
        now = store.stream_time, reached(self._tolerance)
        built = build_batch(batch, view, run, held.progress.position, *now, kept)
        held.ahead = min(held.ahead, built.ahead)
        if built.waiting is not None:
            # the records before are applied; the other views of the topic go on
            held.waiting_for = built.waiting
            self._assignments.update(view.topic, held.partition)
            run = run[: built.stopped]
            position = run[-1].offset() + 1 if run else 0
            if position <= held.progress.position:
                return
        dead, epoch = built.dead, run[-1].leader_epoch()
        if epoch is not None and epoch != identity.leader_epoch:
            identity = replace(identity, leader_epoch=epoch)
        misplaced = count_misplaced(held, built.keys, counts, self._metadata_poller)
        if misplaced:
            if not identity.mis_partitioned:
                held.warn_of_misplaced(position - 1)
            identity = replace(identity, mis_partitioned=identity.mis_partitioned + misplaced)
        if dead:
            self._dead_letters.take(held, dead)
            identity = replace(identity, dead_letters=identity.dead_letters + len(dead))
        changed = identity is not held.identity
        # readers must know of a mispartitioned record before they can miss it
        is_first = misplaced and not held.identity.mis_partitioned
        held.identity = identity
        if is_first:
            self._writer.on_news()
        metadata = identity if changed else None
        self._writer.write(held, batch, position, metadata, built.stream_time)
        held.applied_records += len(built.keys)
        if held.watches:
            held.watches.applied(run, view.layout, dead)

    def _advance(self, held: StorePartition, offset: int) -> None:
        """The log ends at `offset`. Behind the last record there may be transaction markers, or
        nothing, after a compaction."""
        position = max(offset, held.progress.position)
        if position > held.progress.position or not held.progress.answerable:
            self._writer.write(held, held.store.new_batch(), position)

    def expire(self) -> None:
        """Delete some of what has expired, of each store partition."""
        for held in self._registry.all():
            with self._guard(held):
                self._expire(held)

    def _expire(self, held: StorePartition) -> None:
        held.store.settle()
        advance(held, reached(self._tolerance))
        batch = expired(held, self._registry.is_scattered(held.view))
        if batch is not None:
            self._writer.write(held, batch, held.progress.position)

    @contextmanager
    def _guard(self, held: StorePartition) -> Iterator[None]:
        """An error of one store partition does not stop the others."""
        try:
            yield
        except StoreError as e:
            self._lifecycle.fail(held, e)
