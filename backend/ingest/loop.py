"""The ingest thread: opens what this instance shall hold, and keeps it up with the log.

Only this thread changes store partitions. Others tell it what they want, and wake it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from backend.ingest.batch import Record, build_batch
from backend.ingest.batch_sizer import BatchSizer
from backend.ingest.consumer import Fetched, RecordConsumer
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.expiry import expired
from backend.ingest.metadata_poller import MetadataPoller
from backend.ingest.mispartitioned import count_misplaced, known_counts
from backend.ingest.orphan_cleanup import OrphanCleanup, Unit
from backend.ingest.protocols import Folder
from backend.ingest.recovery import open_partition
from backend.ingest.snapshot_fetcher import SnapshotFetcher
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.ingest.stream_time import TOLERANCE, advance, reached
from backend.ingest.topic_metadata import TopicMetadata, why_rebuild_open
from model.problems import StoreError
from model.records import StoreMetadata
from model.views import View

log = logging.getLogger(__name__)

_FETCH_TIMEOUT = 0.1
_TOUCH_EVERY = 30.0
_RETRY_AFTER = 1.0


class IngestLoop:
    """Owns the consumer, the open store partitions and the thread that works on them."""

    def __init__(
        self,
        views: Iterable[View],
        folder: Folder,
        held: PartitionRegistry,
        metadata_poller: MetadataPoller,
        dead_letters: DeadLetters,
        client_settings: Mapping[str, Any],
        acceptable_recovery_lag: int,
        reads_served: Callable[[], int],
        on_news: Callable[[], None],
        cleanup_delay: float,
        snapshot_fetcher: SnapshotFetcher,
        clock_tolerance: float = TOLERANCE,
    ) -> None:
        """`on_news()` is called when the group ought to hear of what was opened or found.

        `cleanup_delay` (s): how long a store partition is kept on disk that is held elsewhere;
        `clock_tolerance` (s): how far stream time may be ahead of the clock.
        """
        self._views = {view.name: view for view in views}
        self._folder = folder
        self._held = held
        self._metadata_poller = metadata_poller
        self._dead_letters = dead_letters
        self._client_settings = client_settings
        self._acceptable_recovery_lag = acceptable_recovery_lag
        self._pace = BatchSizer(reads_served)
        self._on_news = on_news
        self._leftovers = OrphanCleanup(folder, cleanup_delay)
        self._snapshots = snapshot_fetcher
        self._tolerance = clock_tolerance
        self._fetcher: RecordConsumer | None = None
        self._wanted: Mapping[Unit, str] = {}
        self._opened: Mapping[Unit, str] = {}
        self._shared: set[Unit] = set()  # others answer, too: what is kept may be old
        self._taken_over: set[Unit] = set()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._not_before: dict[Unit, float] = {}  # facts must be newer, tries later
        self._positions_before: dict[Unit, int] = {}  # when the last facts came
        self._facts_seen: dict[str, float] = {}
        self._touched_at = time.monotonic()
        self.failure: str | None = None
        self.rebuilds = 0
        self.progress_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="ingest", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Closes every store partition and ends the thread."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def hold(self, wanted: Mapping[Unit, str], shared: Set[Unit], taken_over: Set[Unit]) -> None:
        """From now on exactly these, in these roles: what is missing is opened, what is too much
        closed. A change of role is nothing but that.

        What is new has to reach an end that is fetched from now on; of `shared`, for which others
        answer or have answered, also what is kept from before a restart: they have read newer ones.
        `taken_over`: somebody else is active than was.
        """
        now = time.monotonic()
        self._shared |= shared
        self._taken_over |= taken_over
        self._not_before.update(dict.fromkeys(wanted.keys() - self._wanted.keys(), now))
        self._wanted = wanted
        self._metadata_poller.watch(frozenset(self._views[view].topic for view, _ in wanted))
        self._metadata_poller.refresh()
        self._wake.set()

    def opening(self) -> dict[Unit, str]:
        """What it was told to hold and has not open yet, and in which role."""
        wanted = self._wanted
        return {unit: wanted[unit] for unit in sorted(wanted) if self._held.get(*unit) is None}

    # the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work()
            except Exception as e:
                # what is stored is in step with its position: begin again from there
                self.failure = f"{type(e).__name__}: {e}"
                log.exception("ingest has failed, and starts again")
                self._stop.wait(_RETRY_AFTER)
        self._dead_letters.close()

    def _work(self) -> None:
        """Until it is stopped or fails; either way every store partition is closed."""
        self._fetcher = RecordConsumer(self._client_settings)
        try:
            while not self._stop.is_set():
                self._reconcile()
                self._look_at_facts()
                self._touch()
                for resumed in self._held.resume():
                    self._assign(resumed.view.topic, resumed.partition)
                self._apply(self._fetch())
                self._expire()
                self.progress_at = time.monotonic()
        finally:
            for held in self._held.all():
                self._close(held)
            self._fetcher.close()

    def _fetch(self) -> Fetched:
        assert self._fetcher is not None
        self._wake.clear()
        if not self._held.all():
            self._wake.wait(_FETCH_TIMEOUT)
            return Fetched()
        return self._fetcher.fetch(self._pace.batch_size(self._held.all()), _FETCH_TIMEOUT)

    # what is open

    def _reconcile(self) -> None:
        wanted = self._wanted
        taken_over, self._taken_over = self._taken_over, set()
        for held in self._held.all():
            unit = (held.view.name, held.partition)
            role = wanted.get(unit)
            held.role = role or held.role
            self._dead_letters.take(held, is_taken_over=unit in taken_over)
            if role is None:
                self._let_go(held)
                continue
            if held.damaged is not None:
                self._rebuild(held, held.damaged, keep_aside=True)
        if wanted.keys() == self._opened.keys():
            return
        self._snapshots.keep({unit for unit in wanted if self._held.get(*unit) is None})
        waiting = False
        for unit in sorted(wanted):
            if self._held.get(*unit) is None and not self._stop.is_set():
                waiting = not self._open(*unit) or waiting
        if not waiting:
            self._opened = wanted

    def _open(self, view_name: str, partition: int) -> bool:
        """Open one; False if it has to be tried again."""
        unit = (view_name, partition)
        view = self._views[view_name]
        facts = self._metadata_poller.facts(view.topic)
        if facts is None or facts.fetched_at < self._not_before.get(unit, 0.0):
            return False
        if partition not in facts.ends or not self._snapshots.has_ended(view, partition, facts):
            return False
        try:
            how = self._acceptable_recovery_lag, unit in self._shared, self._tolerance
            held, reason = open_partition(self._folder, view, partition, facts, *how)
        except Exception as e:
            log.error("view %s, partition %d cannot be opened: %s", view_name, partition, e)
            self._not_before[unit] = time.monotonic() + _RETRY_AFTER
            return False
        if reason is not None:
            self._say_rebuilt(view_name, partition, reason)
        held.role = self._wanted.get(unit, held.role)
        if held.progress.answerable and not held.identity.answerable:
            self._say_answerable(held)
        self._shared.discard(unit)
        self._held.add(held)
        self._assign(view.topic, partition)
        self._on_news()
        return True

    def _let_go(self, held: StorePartition) -> None:
        """Somebody else answers from now on, of newer records: if it comes back, it has to reach
        the end first, however near that is."""
        held.identity = replace(held.identity, answerable=False)
        if self._write(held, held.store.new_batch(), held.progress.position, held.identity):
            self._close(held)

    def _close(self, held: StorePartition) -> None:
        self._held.remove(held)
        self._opened = {}
        self._assign(held.view.topic, held.partition)
        held.close(time.time_ns() // 1_000_000)

    def _rebuild(self, held: StorePartition, reason: str, keep_aside: bool = False) -> None:
        """Start the store partition anew, once facts newer than now are there."""
        self._close(held)
        name, partition = held.view.name, held.partition
        clear = self._folder.set_aside if keep_aside else self._folder.delete
        clear(name, partition)
        self._say_rebuilt(name, partition, reason)
        self._not_before[(name, partition)] = time.monotonic()
        self._positions_before.pop((name, partition), None)
        self._metadata_poller.refresh()

    # what is fetched

    def _assign(self, topic: str, partition: int) -> None:
        """Read from where the one that is farthest behind needs it; not at all if nobody does."""
        assert self._fetcher is not None
        sharing = self._held.fed_by(topic, partition)
        if not sharing:
            self._fetcher.unassign((topic, partition))
            return
        first = min(sharing, key=lambda held: held.progress.position)
        self._fetcher.assign(
            (topic, partition), first.progress.position, first.identity.leader_epoch
        )

    def _apply(self, fetched: Fetched) -> None:
        for source, records in fetched.records.items():
            for held in self._held.fed_by(*source):
                self._apply_run(held, records)
        for source, end in fetched.ends.items():
            for held in self._held.fed_by(*source):
                self._advance(held, end)
        for source in fetched.lost:
            for held in self._held.fed_by(*source):
                position = held.progress.position
                self._rebuild(held, f"the log has no offset {position} any more, or another record")

    def _apply_run(self, held: StorePartition, run: Sequence[Record]) -> None:
        """Records of one partition, in offset order: one batch with the position behind them."""
        position = run[-1].offset() + 1
        if position <= held.progress.position:
            return
        view = held.view
        batch, store, identity = held.store.new_batch(), held.store, held.identity
        counts = known_counts(held, self._metadata_poller.facts(view.topic))
        kept = self._held.keeps_delete(held, counts)
        now = store.stream_time, reached(self._tolerance)
        filled = build_batch(batch, view, run, held.progress.position, *now, kept)
        held.ahead = min(held.ahead, filled.ahead)
        if filled.waiting is not None:
            # what came before is applied; from there it is read again, and the other views go on
            held.waiting_for = filled.waiting
            self._assign(view.topic, held.partition)
            run = run[: filled.stopped]
            position = run[-1].offset() + 1 if run else 0
            if position <= held.progress.position:
                return
        dead, epoch = filled.dead, run[-1].leader_epoch()
        if epoch is not None and epoch != identity.leader_epoch:
            identity = replace(identity, leader_epoch=epoch)
        misplaced = count_misplaced(held, filled.keys, counts, self._metadata_poller)
        if misplaced:
            if not identity.mis_partitioned:
                held.warn_of_misplaced(position - 1)
            identity = replace(identity, mis_partitioned=identity.mis_partitioned + misplaced)
        if dead:
            self._dead_letters.take(held, dead)
            identity = replace(identity, dead_letters=identity.dead_letters + len(dead))
        changed = identity is not held.identity
        # readers must know of a misplaced record before they can miss it
        first_misplaced = misplaced and not held.identity.mis_partitioned
        held.identity = identity
        if first_misplaced:
            self._on_news()
        if self._write(held, batch, position, identity if changed else None, filled.stream_time):
            held.applied_records += len(filled.keys)
            if held.watches:
                held.watches.applied(run, view.layout, dead)

    def _advance(self, held: StorePartition, offset: int) -> None:
        """The log ends at `offset`: behind the last record there may be transaction markers, or
        nothing any more, where compaction has been."""
        position = max(offset, held.progress.position)
        if position > held.progress.position or not held.progress.answerable:
            self._write(held, held.store.new_batch(), position, None)

    def _write(
        self,
        held: StorePartition,
        batch: Any,
        position: int,
        identity: StoreMetadata | None,
        stream_time: int | None = None,
    ) -> bool:
        try:
            held.store.write(batch, position, identity, stream_time)
            if held.progress.applied(position):
                self._say_answerable(held)
        except StoreError as e:
            self._failed(held, e)
            return False
        return True

    def _failed(self, held: StorePartition, error: StoreError) -> None:
        """Rebuild what is damaged; else a full disk, say: what is stored is in step, so open it
        again and go on from there."""
        if error.damaged:
            self._rebuild(held, str(error), keep_aside=True)
            return
        log.error("view %s, partition %d: %s", held.view.name, held.partition, error)
        self._close(held)
        self._not_before[held.view.name, held.partition] = time.monotonic() + _RETRY_AFTER

    def _expire(self) -> None:
        for held in self._held.all():
            try:
                held.store.settle()
                advance(held, reached(self._tolerance))
                batch = expired(held, self._held.is_scattered(held.view))
                if batch is not None:
                    self._write(held, batch, held.progress.position, None)
            except StoreError as e:
                self._failed(held, e)

    def _say_rebuilt(self, view: str, partition: int, reason: str) -> None:
        self.rebuilds += 1
        log.warning("view %s, partition %d is rebuilt: %s", view, partition, reason)

    def _say_answerable(self, held: StorePartition) -> None:
        if not held.identity.answerable:
            held.identity = replace(held.identity, answerable=True)
            held.store.write(held.store.new_batch(), held.progress.position, held.identity)
        held.say_answerable()
        self._on_news()

    # what the broker says

    def _look_at_facts(self) -> None:
        new = False
        for topic in {view.topic for view in self._views.values()}:
            facts = self._metadata_poller.facts(topic)
            if facts is None or facts.fetched_at <= self._facts_seen.get(topic, 0.0):
                continue
            new = True
            self._facts_seen[topic] = facts.fetched_at
            for held in self._held.all():
                if held.view.topic == topic:
                    self._compare(held, facts)
        if new:
            self._on_news()

    def _compare(self, held: StorePartition, facts: TopicMetadata) -> None:
        unit, position = (held.view.name, held.partition), held.progress.position
        before = self._positions_before.get(unit)
        reason = why_rebuild_open(held.partition, position, before, held.identity, facts)
        if reason is not None:
            self._rebuild(held, reason)
        elif (end := facts.ends.get(held.partition)) is not None:
            self._positions_before[unit] = position
            held.progress.end_fetched(end, facts.fetched_at)

    def _touch(self) -> None:
        """Every now and then: note that the stores are in use, delete what nobody wants here."""
        now = time.monotonic()
        if now - self._touched_at < _TOUCH_EVERY:
            return
        self._touched_at = now
        for held in self._held.all():
            held.identity = replace(held.identity, alive_at=time.time_ns() // 1_000_000)
            self._write(held, held.store.new_batch(), held.progress.position, held.identity)
        self._leftovers.clean_up(self._wanted.keys(), now)
