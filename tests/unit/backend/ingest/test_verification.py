"""Tests of the comparison of a reopened store with the log: it answers only if the log still has
its last record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.consumer import Fetched
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.storage.data_directory import DataDirectory
from model.machine.clock import boot_time
from model.records import LAST_RECORD_KEY, LastRecord
from tests.support.in_process.examples import view
from tests.support.in_process.fakes import FakeFetcher, FakeWatcher, Rec
from tests.support.in_process.ingest import Ingest, ingest_of
from tests.support.in_process.logs import CollectedDeadLetters, NoSnapshots

pytestmark = pytest.mark.usefixtures("batches")

SOURCE = ("t", 0)
VIEW = view("v", topic="t", value="bytes", partitioner="none")
OTHER = view("other", topic="t", value="bytes", partitioner="none")
# offset 7 is of a transaction marker
LOG = [Rec(4, b"a", b"1"), Rec(5, b"b", b"2"), Rec(6, b"c", b"3")]
LAST, POSITION = LOG[-1], 8


class Watcher(FakeWatcher):
    """The log from 0 to `end`, as of now."""

    refreshes = 0
    start = 0  # of the log, at the next `fresh`
    retention: int | None = None  # delete.retention.ms

    def fresh(self, topic: str) -> TopicMetadata | None:
        latest = self.latest[topic]
        self.set(latest.ends[0], self.start)
        return self.latest[topic]

    def set(self, end: int, start: int = 0, topic_id: str = "topic-1") -> None:
        self.latest["t"] = TopicMetadata(
            topic_id,
            1,
            {0: start},
            {0: end},
            self.retention,
            time.monotonic(),
            boot_time(),
        )

    def watch(self, partitions: object) -> None:
        pass

    def refresh(self) -> None:
        self.refreshes += 1


class Process:
    """Ingest of one process, which opens the store partitions of its views."""

    def __init__(
        self,
        root: Path,
        end: int,
        start: int = 0,
        views: Sequence[Any] = (VIEW,),
        snapshots: Callable[[DataDirectory], Any] = lambda folder: NoSnapshots(),
        retention: int | None = None,
    ) -> None:
        self.folder = DataDirectory(root)
        self.registry = PartitionRegistry(tuple(views))
        self.watcher, self.fetcher = Watcher(), FakeFetcher()
        self.watcher.retention = retention
        self.ingest: Ingest = ingest_of(
            views,
            self.folder,
            self.registry,
            self.watcher,
            self.fetcher,
            CollectedDeadLetters(),
            snapshots(self.folder),
        )
        self.ingest.lifecycle.assign({(each.name, 0): "active" for each in views}, set(), set())
        self.watcher.set(end, start)
        self.turn()

    def turn(self, records: Sequence[Any] = (), end: int | None = None) -> None:
        """One iteration, in which these records and this end of the log are fetched."""
        fetched = Fetched(
            {SOURCE: list(records)} if records else {}, {} if end is None else {SOURCE: end}
        )
        self.ingest.loop.run_once(lambda: fetched)

    def disconnect(self, records: Sequence[Any]) -> None:
        """A connection has ended before these records were fetched."""
        self.ingest.applier.apply(Fetched({SOURCE: list(records)}, disconnected=True))

    def lose(self) -> None:
        """The log does not have the requested offset."""
        self.ingest.applier.apply(Fetched(lost=[SOURCE]))

    def close(self) -> None:
        self.ingest.lifecycle.close_all()
        self.folder.close()

    def opened(self, name: str = "v") -> StorePartition:
        found = self.registry.get(name, 0)
        assert found is not None
        return found

    @property
    def answers(self) -> bool:
        found = self.registry.get("v", 0)
        return found is not None and found.progress.answerable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data folder whose store has read LOG and has answered."""
    process = Process(tmp_path, POSITION)
    process.turn(LOG, POSITION)
    assert process.answers
    process.close()
    return tmp_path


@pytest.fixture
def reopened(root: Path) -> Iterator[Process]:
    process = Process(root, POSITION)
    yield process
    process.close()


def test_the_store_keeps_its_last_record(reopened: Process) -> None:
    last_record = LastRecord.from_record(LAST.at, LAST.time, LAST.k, LAST.v)
    assert reopened.opened().store.last_record == last_record
    assert reopened.opened().store.get(LAST_RECORD_KEY) == last_record.encode()
    assert LastRecord.decode(last_record.encode()) == last_record


def test_it_answers_when_the_log_has_its_last_record(reopened: Process) -> None:
    assert not reopened.answers
    assert reopened.fetcher.reads_from == LAST.at
    reopened.turn([LAST])
    assert reopened.answers
    assert reopened.opened().progress.position == POSITION
    reopened.turn([Rec(8, b"d", b"4")])
    assert reopened.opened().progress.position == 9
    assert reopened.ingest.loop.rebuilds == 0


@pytest.mark.parametrize(
    "record",
    [Rec(6, b"c", b"4"), Rec(6, b"d", b"3"), Rec(6, b"c", b"3", time=8), Rec(6, b"c", None),
     Rec(6, None, b"3"), Rec(6, b"c3", b"")],
    ids=["value", "key", "time", "tombstone", "no key", "other bounds"],
)  # fmt: skip
def test_it_is_rebuilt_if_the_log_has_another_record_there(reopened: Process, record: Rec) -> None:
    log = [Rec(6, record.k, record.v, record.time), Rec(8, b"d", b"4")]
    reopened.turn(log, 9)
    assert not reopened.answers
    assert reopened.ingest.loop.rebuilds == 1
    reopened.watcher.set(9)
    reopened.turn()
    assert reopened.fetcher.reads_from == 0
    reopened.turn([Rec(0, b"x", b"0"), *log], 9)
    assert reopened.answers
    assert reopened.opened().store.get(VIEW.layout.stored_key(b"a", 0)) is None


def test_a_record_that_was_compacted_away_is_not_compared(reopened: Process) -> None:
    reopened.turn([Rec(9, b"c", b"5")], 10)
    assert reopened.answers
    assert reopened.opened().progress.position == 10


def test_without_any_record_left_the_end_of_the_log_counts(reopened: Process) -> None:
    reopened.turn((), POSITION)
    assert reopened.answers
    assert reopened.ingest.loop.rebuilds == 0


def test_a_log_that_ends_before_the_record_does_not_count(reopened: Process) -> None:
    reopened.turn((), LAST.at)
    assert not reopened.answers


def test_earlier_records_are_no_answer(reopened: Process) -> None:
    """They were fetched for another view of the topic."""
    reopened.turn(LOG[:2])
    assert not reopened.answers
    reopened.turn([LAST])
    assert reopened.answers


def test_a_log_that_is_truncated_before_the_store_has_caught_up(tmp_path: Path) -> None:
    """Regression: the store waited for the former end, for ever if nothing was written."""
    process = Process(tmp_path, POSITION + 3)
    process.turn(LOG)
    process.watcher.set(POSITION)
    process.turn((), POSITION)
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)
    process.close()


def test_a_record_that_was_deleted_is_not_waited_for(root: Path) -> None:
    process = Process(root, POSITION, start=7)
    assert process.answers
    assert process.fetcher.reads_from == POSITION
    process.close()


def test_a_store_of_an_older_version_has_no_last_record(root: Path) -> None:
    folder = DataDirectory(root)
    store: Any
    store, _ = folder.open("v", 0)
    batch = store.new_batch()
    batch.delete(LAST_RECORD_KEY)
    store.write(batch, store.position)
    store.close()
    folder.close()
    process = Process(root, POSITION)
    assert process.answers
    process.close()


def test_a_last_record_far_behind_is_not_read_again(root: Path) -> None:
    """An older version has moved the position in between."""
    folder = DataDirectory(root)
    store: Any
    store, _ = folder.open("v", 0)
    store.write(store.new_batch(), 50_000)
    store.close()
    folder.close()
    process = Process(root, 50_000)
    assert process.answers
    process.close()


def test_it_must_also_catch_up(root: Path) -> None:
    """The records since then are more than the acceptable lag of 0."""
    process = Process(root, POSITION + 2)
    process.turn([LAST])
    assert not process.answers
    process.turn([Rec(9, b"d", b"4")], POSITION + 2)
    assert process.answers
    process.close()


def test_an_open_store_is_compared_after_a_disconnection_and_answers_meanwhile(
    reopened: Process,
) -> None:
    reopened.turn([LAST], POSITION)
    other = [Rec(6, b"x", b"x"), Rec(8, b"x", b"x")]
    reopened.disconnect([other[1]])
    assert reopened.opened().progress.position == POSITION, "the fetched records do not count"
    assert reopened.answers
    assert reopened.fetcher.reads_from == LAST.at
    reopened.turn(other, POSITION + 1)
    assert not reopened.answers
    assert reopened.ingest.loop.rebuilds == 1


def test_after_a_disconnection_the_same_log_changes_nothing(reopened: Process) -> None:
    reopened.turn([LAST], POSITION)
    reopened.disconnect([])
    reopened.turn([LAST, Rec(8, b"d", b"4")], POSITION + 1)
    assert (reopened.answers, reopened.opened().progress.position) == (True, POSITION + 1)
    assert reopened.ingest.loop.rebuilds == 0


def test_after_a_disconnection_the_last_record_may_have_expired(reopened: Process) -> None:
    """The log begins later than it did in the metadata."""
    reopened.turn([LAST], POSITION)
    reopened.disconnect([])
    reopened.watcher.start = LAST.at + 1
    reopened.lose()
    assert (reopened.answers, reopened.ingest.loop.rebuilds) == (True, 0)
    assert reopened.fetcher.reads_from == POSITION
    reopened.lose()
    assert (reopened.answers, reopened.ingest.loop.rebuilds) == (False, 1)


def test_after_a_disconnection_the_log_may_end_before_the_last_record(reopened: Process) -> None:
    """Regression: records that it got later at these offsets were missed."""
    reopened.turn([LAST], POSITION)
    reopened.disconnect([])
    reopened.lose()
    assert (reopened.answers, reopened.ingest.loop.rebuilds) == (False, 1)


def test_after_a_disconnection_the_log_may_have_changed_before_the_last_record(
    reopened: Process,
) -> None:
    reopened.turn([LAST], POSITION)
    reopened.disconnect([])
    reopened.watcher.start = LAST.at + 1
    reopened.ingest.applier.apply(Fetched(truncated=[SOURCE]))
    assert (reopened.answers, reopened.ingest.loop.rebuilds) == (False, 1)


def test_a_disconnection_before_the_first_fetch_does_not_end_the_comparison(
    reopened: Process,
) -> None:
    """Else the store would never answer. The metadata say now that the record has expired."""
    reopened.watcher.set(POSITION + 1, start=LAST.at + 1)
    reopened.disconnect([])
    reopened.turn([Rec(8, b"d", b"4")], POSITION + 1)
    assert (reopened.answers, reopened.ingest.loop.rebuilds) == (True, 0)


def test_an_end_from_before_the_last_records_is_no_truncation(reopened: Process) -> None:
    """Regression: two polls right after each other led to a rebuild."""
    reopened.turn([LAST], POSITION)
    watcher = reopened.watcher
    watcher.set(POSITION)
    first = watcher.latest["t"]
    watcher.set(POSITION)
    second = watcher.latest["t"]
    del watcher.latest["t"]
    reopened.turn([Rec(8, b"d", b"4")], POSITION + 1)
    # the metadata of the first poll are checked after the second one has begun
    watcher.latest["t"] = first
    reopened.turn()
    watcher.latest["t"] = second
    reopened.turn()
    assert (reopened.answers, reopened.ingest.loop.rebuilds) == (True, 0)
    # each position is compared with a later end
    watcher.set(POSITION)
    reopened.turn()
    assert (reopened.answers, reopened.ingest.loop.rebuilds) == (False, 1)


def test_of_two_views_only_the_one_that_lags_is_rebuilt_if_its_next_record_is_lost(
    tmp_path: Path,
) -> None:
    process = Process(tmp_path, POSITION, views=(VIEW, OTHER))
    process.turn(LOG, POSITION)
    process.ingest.lifecycle.rebuild(process.opened("other"), "an operator has asked for it")
    process.watcher.set(POSITION)
    process.turn()
    assert process.fetcher.reads_from == 0
    process.lose()
    assert process.registry.get("other", 0) is None
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 2)
    assert process.fetcher.reads_from == POSITION
    process.lose()
    assert (process.answers, process.ingest.loop.rebuilds) == (False, 3)
    process.close()


def test_listeners_get_no_record_twice(tmp_path: Path) -> None:
    """Another view of the topic makes the consumer read records again."""
    process = Process(tmp_path, 7, views=(VIEW, OTHER))
    process.turn(LOG[:2])
    changes: list[int] = []
    process.opened().listeners.add(
        b"b", lambda found: changes.extend(c.offset for c in found or ())
    )
    process.ingest.applier.apply(Fetched({SOURCE: [*LOG, Rec(7, b"b", b"5")]}))
    assert changes == [7]
    process.close()
