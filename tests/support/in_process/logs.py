"""Topics in memory, and their readers, which replace Kafka's clients."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set

from backend.ingest.batch import DeadLetter
from backend.ingest.consumer import Fetched, Source
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import StorePartition
from model.machine.clock import boot_time
from model.views import View
from tests.support.in_process.fakes import Rec
from tests.support.reference.tables import Record


class LogFetcher:
    """A Fetcher of the cluster's logs."""

    def __init__(self, logs: list[list[Record]], view: View) -> None:
        self._logs = logs
        self._view = view
        self._positions: dict[Source, int] = {}
        self._reported: dict[Source, int] = {}

    def assign(self, source: Source, position: int, leader_epoch: int) -> None:
        self._positions[source] = position
        self._reported.pop(source, None)

    def unassign(self, source: Source) -> None:
        self._positions.pop(source, None)

    def fetch(self, most: int, timeout: float = 0) -> Fetched:
        """Up to `most` records of each partition, and the end offsets that were reached."""
        fetched = Fetched()
        for source, position in self._positions.items():
            log = self._logs[source[1]]
            run = log[position : position + most]
            if run:
                fetched.records[source] = [
                    Rec(r.offset, r.record_key(self._view), r.value, r.timestamp) for r in run
                ]
            end = self._positions[source] = position + len(run)
            if end == len(log) and self._reported.get(source) != end:
                fetched.ends[source] = self._reported[source] = end
        return fetched


class LogMetadata:
    """The metadata of the cluster's logs, updated by `refresh`."""

    alive = True

    def __init__(self, logs: list[list[Record]], view: View) -> None:
        self._logs = logs
        self._topic = view.topic
        self.latest: dict[str, TopicMetadata] = {}
        self.refresh()

    def refresh(self) -> None:
        ends = {number: len(log) for number, log in enumerate(self._logs)}
        starts = dict.fromkeys(ends, 0)
        metadata = TopicMetadata(
            "topic-1", len(ends), starts, ends, None, time.monotonic(), boot_time()
        )
        self.latest[self._topic] = metadata.after(self.latest.get(self._topic))

    def get(self, topic: str) -> TopicMetadata | None:
        return self.latest.get(topic)

    def fresh(self, topic: str) -> TopicMetadata | None:
        self.refresh()
        return self.get(topic)

    def watch(self, partitions: object) -> None:
        pass


class NoSnapshots:
    """A SnapshotFetcher that fetches nothing: all records are read from the log."""

    def has_ended(
        self, view: View, partition: int, metadata: TopicMetadata, may_wait: bool = False
    ) -> bool:
        return True

    def may_request(self, view: View, partition: int, topic_metadata: TopicMetadata) -> bool:
        return False

    def has_source(self, view: View, partition: int) -> bool:
        return False

    def is_better(self, opened: StorePartition, topic_metadata: TopicMetadata | None) -> bool:
        return False

    def installed_at(self, view: View, partition: int) -> float:
        return 0.0

    def retry(self, view: View, partition: int) -> None:
        pass

    def forget(self, view: str, partition: int) -> None:
        pass

    def keep(self, wanted: Set[tuple[str, int]]) -> None:
        pass


class CollectedDeadLetters(DeadLetters):
    """Collects the dead letters of a view as (partition, offset)."""

    def __init__(self) -> None:
        super().__init__({}, 0)
        self.sent: set[tuple[int, int]] = set()

    def send(self, view: View, partition: int, letters: Sequence[DeadLetter]) -> None:
        self.sent.update((partition, letter.record.offset()) for letter in letters)
