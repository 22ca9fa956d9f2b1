"""The ingest thread, which opens store partitions and applies the log to them.

Only this thread modifies store partitions. Other threads assign partitions to it and wake it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any

from backend.ingest.applier import RecordApplier
from backend.ingest.consumer import Fetched, RecordConsumer, SourceAssignments
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.indexes.work import next_work
from backend.ingest.lifecycle.partitions import PartitionLifecycle
from backend.ingest.read_priority import ReadPriority
from backend.ingest.stalled_fetch import StalledFetch
from backend.ingest.store_partitions import PartitionRegistry, StorePartitionId

log = logging.getLogger(__name__)

_FETCH_TIMEOUT = 0.1  # s
# s that a round waits while store partitions must be opened, and s to add for each of them
_OPENING_TIMEOUT, _OPENING_TIMEOUT_EACH = 0.02, 0.0005
# s between two complete rounds; the second value if no store partition needs a round soon. A
# complete round looks at every store partition, which takes 10 µs for each
_COMPLETE_EVERY, _COMPLETE_EVERY_IF_QUIET = 0.1, 1.0
_RETRY_AFTER = 1.0  # s


class IngestLoop:
    """Owns the consumer and the ingest thread."""

    def __init__(
        self,
        registry: PartitionRegistry,
        lifecycle: PartitionLifecycle,
        applier: RecordApplier,
        assignments: SourceAssignments,
        dead_letters: DeadLetters,
        client_settings: Mapping[str, Any],
        read_priority: ReadPriority,
        ends_trusted_for: float,
    ) -> None:
        """`client_settings`: of librdkafka. `ends_trusted_for`: s for which an end of a log is
        trusted."""
        self._registry = registry
        self._lifecycle = lifecycle
        self._applier = applier
        self._assignments = assignments
        self._dead_letters = dead_letters
        self._client_settings = client_settings
        self._read_priority = read_priority
        self._stalled_fetch = StalledFetch(registry, ends_trusted_for)
        self._wake = threading.Event()
        self._complete_at = 0.0  # s, monotonic: time of the next complete round
        self._stop = threading.Event()
        self.failure: str | None = None
        self.progress_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="ingest", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Close every store partition and end the thread."""
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def rebuilds(self) -> int:
        """The number of store partitions rebuilt since the start."""
        return self._lifecycle.rebuilds

    def assign(
        self,
        assigned: Mapping[StorePartitionId, str],
        shared: Set[StorePartitionId],
        taken_over: Set[StorePartitionId],
        unplaced: Set[str] = frozenset(),
    ) -> None:
        """Set the assigned store partitions: see PartitionLifecycle.assign."""
        self._lifecycle.assign(assigned, shared, taken_over, unplaced)
        self._wake.set()

    def rebuild(self, view: str, partition: int) -> None:
        """Rebuild a store partition: see PartitionLifecycle.ask_for_rebuild."""
        self._lifecycle.ask_for_rebuild(view, partition)
        self._wake.set()

    def look(self) -> None:
        """Start a complete round soon, because there is new metadata. Any thread may call it."""
        self._wake.set()

    def opening(self) -> dict[StorePartitionId, str]:
        """The assigned store partitions that are not open yet, and their roles."""
        return self._lifecycle.opening()

    # the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.run_until_stopped()
            except Exception as e:
                # entries and positions are consistent: restart from the stored positions
                self.failure = f"{type(e).__name__}: {e}"
                log.exception("ingest failed; restarting")
                self._stop.wait(_RETRY_AFTER)
        self._dead_letters.close()

    def run_until_stopped(self) -> None:
        """Run until stopped or failed, then close all store partitions."""
        consumer = self._assignments.consumer = self._new_consumer()
        self._complete_at = 0.0
        try:
            while not self._stop.is_set():
                self._run_round(partial(self._fetch, consumer))
                if (stalled := self._stalled_fetch.stalled()) is not None:
                    log.warning("view %s, partition %d has records, but none is fetched; the "
                                "consumer is replaced", *stalled)  # fmt: skip
                    old = consumer
                    consumer = self._assignments.consumer = self._new_consumer()
                    # the new consumer has other connections
                    self._lifecycle.verify_again()
                    old.close()
                self.progress_at = time.monotonic()
        finally:
            self._lifecycle.close_all()
            consumer.close()

    def _new_consumer(self) -> RecordConsumer:
        return RecordConsumer(self._client_settings, self._registry.topics())

    def _run_round(self, fetch: Callable[[], Fetched]) -> None:
        """Run a complete round if it is due or there is news, else only fetch and apply."""
        if self._wake.is_set() or time.monotonic() >= self._complete_at:
            self._wake.clear()  # before the round looks at what there is to do
            self.run_once(fetch)
            return
        self._assignments.end_pauses()
        self._apply(fetch())

    def run_once(self, fetch: Callable[[], Fetched]) -> None:
        """Run a complete round: open, close, compare with the broker, fetch, apply and expire."""
        self._lifecycle.reconcile(self._stop.is_set)
        self._lifecycle.check_metadata()
        self._lifecycle.touch()
        for resumed in self._registry.resume():
            self._assignments.update(resumed.view.topic, resumed.partition)
        self._assignments.end_pauses()
        self._complete_at = time.monotonic() + self._pause()  # the fetch waits until then
        self._apply(fetch())
        self._applier.expire()

    def _apply(self, fetched: Fetched) -> None:
        if fetched != Fetched():
            self._applier.apply(fetched)
            self._complete_at = min(self._complete_at, time.monotonic() + _COMPLETE_EVERY)

    def _pause(self) -> float:
        """The time (s) until the next complete round. It is needed soon if a store partition must
        be opened, catches up, waits for a schema, or may get a push, if entries expire, or if a
        partition of a topic is paused."""
        if self._lifecycle.unopened:
            return self._timeout()
        is_busy = (
            self._assignments.has_pauses
            or self._registry.candidates()
            or any(
                not p.progress.answerable
                or p.waiting_for is not None
                or p.view.retention is not None
                or p.view.push is not None
                or next_work(p) is not None
                for p in self._registry.all()
            )
        )
        return _COMPLETE_EVERY if is_busy else _COMPLETE_EVERY_IF_QUIET

    def _fetch(self, consumer: RecordConsumer) -> Fetched:
        open_partitions = self._registry.all()
        if not open_partitions:
            self._wake.wait(self._timeout())
            return Fetched()
        size = self._read_priority.fetch_size(open_partitions)
        return consumer.fetch(size, self._timeout(), self._wake.is_set)

    def _timeout(self) -> float:
        """How long this round waits for records (s): until the next complete round, but only for a
        short time while store partitions wait for metadata or snapshots."""
        if not self._lifecycle.unopened:
            return max(_FETCH_TIMEOUT, self._complete_at - time.monotonic())
        return min(
            _FETCH_TIMEOUT, _OPENING_TIMEOUT + _OPENING_TIMEOUT_EACH * self._lifecycle.unopened
        )
