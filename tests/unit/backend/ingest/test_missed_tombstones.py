"""Tests of stores whose log was not read for longer than compaction keeps tombstones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.ingest.lifecycle.missed_tombstones import Completeness, longest_poll_interval
from model.machine.clock import boot_time
from tests.support.in_process.fakes import Rec
from tests.unit.backend.ingest.test_verification import LAST, LOG, POSITION, Process

pytestmark = pytest.mark.usefixtures("batches")

HOUR = 3_600
RETENTION = 24 * HOUR * 1000  # ms


class Clock:
    """A clock that goes on while nothing is read. The wall clock is not changed by it."""

    passed = 0.0  # s

    def __call__(self) -> float:
        return boot_time()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock, gettime = Clock(), time.clock_gettime
    monkeypatch.setattr("time.clock_gettime", lambda which: gettime(which) + clock.passed)
    return clock


def read(root: Path, retention: int | None = RETENTION) -> Process:
    """A process that has read the whole log of a topic."""
    process = Process(root, POSITION, retention=retention)
    process.turn(LOG, POSITION)
    process.watcher.set(POSITION)
    process.turn()
    assert process.answers
    return process


@pytest.fixture
def process(tmp_path: Path, clock: Clock) -> Iterator[Process]:
    process = read(tmp_path)
    yield process
    process.close()


def test_a_store_that_was_not_read_for_too_long_is_rebuilt(process: Process, clock: Clock) -> None:
    """Key "a" was deleted meanwhile, and compaction has removed its tombstone."""
    clock.passed = 25 * HOUR
    later = [Rec(99, b"d", b"4"), Rec(100, b"e", b"5")]
    process.turn(later, 101)
    assert (process.answers, process.ingest.loop.rebuilds) == (False, 1)
    process.watcher.set(101)
    process.turn()
    assert process.fetcher.reads_from == 0
    process.turn([Rec(5, b"b", b"2"), Rec(6, b"c", b"3"), *later], 101)
    assert process.answers
    assert process.opened().store.get(b"\x01a") is None


def test_a_log_of_which_only_the_end_is_left(process: Process, clock: Clock) -> None:
    """Compaction has removed all records after the position, a tombstone among them."""
    clock.passed = 25 * HOUR
    process.turn((), 100)
    assert (process.answers, process.ingest.loop.rebuilds) == (False, 1)


@pytest.mark.parametrize("passed", [0, 23 * HOUR])
def test_a_shorter_pause(process: Process, clock: Clock, passed: float) -> None:
    clock.passed = passed
    process.turn([Rec(99, b"d", b"4")], 100)
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)


def test_a_topic_without_new_records(process: Process, clock: Clock) -> None:
    """The broker could not be reached, but it has no new record: so no tombstone is missing."""
    clock.passed = 25 * HOUR
    process.turn((), POSITION)
    process.watcher.set(POSITION)
    process.turn()
    process.turn([Rec(99, b"d", b"4")], 100)
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)


def test_a_machine_that_is_suspended_after_a_poll(process: Process, clock: Clock) -> None:
    """Regression: the monotonic clock stands still during a suspension, so the end of the log
    seemed to be from after it."""
    process.watcher.set(POSITION)
    clock.passed = 25 * HOUR
    process.turn()
    process.turn([Rec(99, b"d", b"4")], 100)
    assert (process.answers, process.ingest.loop.rebuilds) == (False, 1)


def test_an_end_that_is_not_reached_is_no_reading(process: Process, clock: Clock) -> None:
    """The broker answers, but nothing is fetched, for example because the store waits for a
    schema."""
    for _ in range(3):
        clock.passed += 12 * HOUR
        process.watcher.set(100)
        process.turn()
    process.turn([Rec(99, b"d", b"4")], 100)
    assert (process.answers, process.ingest.loop.rebuilds) == (False, 1)


def test_a_store_that_lags_but_reads(process: Process, clock: Clock) -> None:
    for at in range(POSITION, POSITION + 5):
        process.watcher.set(at + 2)
        process.turn()
        clock.passed += 5 * HOUR
        process.turn([Rec(at, b"d", b"4")])
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)


def test_the_first_replay_of_a_topic_that_grows_may_take_long() -> None:
    """Regression: it was complete as of its begin, so it was rebuilt, again and again."""
    completeness = Completeness()
    now = boot_time()
    completeness.end_fetched(10, 0, now - 90)
    completeness.end_fetched(20, 12, now)  # the first end is reached, after 90 s
    assert completeness.rebuild_reason(1000) is None
    completeness.end_fetched(30, 21, now)
    assert completeness.to_store(1_000_000) is None, "it is complete as of now"


def test_the_end_of_the_log_shows_that_no_record_is_missing(process: Process, clock: Clock) -> None:
    """Regression: a store that read all records was rebuilt, because polls were not answered."""
    for at in range(POSITION, POSITION + 3):
        clock.passed += 23 * HOUR
        process.turn([Rec(at, b"d", b"4")], at + 1)
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)


def test_the_first_replay_may_take_long(tmp_path: Path, clock: Clock) -> None:
    process = Process(tmp_path, POSITION, retention=RETENTION)
    clock.passed = 25 * HOUR
    process.turn(LOG[:1])
    clock.passed = 50 * HOUR
    process.turn(LOG[1:], POSITION)
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)
    process.close()


def test_a_topic_that_is_not_compacted(tmp_path: Path, clock: Clock) -> None:
    process = read(tmp_path, retention=None)
    clock.passed = 1000 * HOUR
    process.turn([Rec(99, b"d", b"4")], 100)
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)
    process.close()


def test_the_pause_counts_after_a_restart_too(clock: Clock, tmp_path: Path) -> None:
    process = read(tmp_path)
    clock.passed = 25 * HOUR
    process.close()
    restarted = Process(tmp_path, 100, retention=RETENTION)
    assert restarted.ingest.loop.rebuilds == 1
    assert restarted.fetcher.reads_from == 0
    restarted.close()


def test_the_pause_goes_on_after_a_restart(clock: Clock, tmp_path: Path) -> None:
    process = read(tmp_path)
    clock.passed = 11 * HOUR
    process.close()
    restarted = Process(tmp_path, 100, retention=RETENTION)
    assert restarted.fetcher.reads_from == LAST.at
    clock.passed = 25 * HOUR
    restarted.turn([LAST, Rec(99, b"d", b"4")], 100)
    assert (restarted.answers, restarted.ingest.loop.rebuilds) == (False, 1)
    restarted.close()


def test_what_is_stored(clock: Clock) -> None:
    now_ms = 1_000_000_000
    assert Completeness().to_store(now_ms) == 0
    assert Completeness.stored(now_ms, now_ms).to_store(now_ms) is None
    completeness = Completeness.stored(now_ms - 20_000, now_ms)
    assert completeness.to_store(now_ms) == pytest.approx(now_ms - 20_000, abs=500)
    clock.passed = 40
    assert completeness.to_store(now_ms) == pytest.approx(now_ms - 60_000, abs=500)
    completeness.end_fetched(5, 5, clock())
    assert completeness.to_store(now_ms) is None


@pytest.mark.parametrize(
    ("behind", "retention", "rebuilt"),
    [(50, 0, False), (70, 0, True), (70, 80_000, False), (90, 80_000, True), (90, None, False)],
)
def test_a_short_retention(behind: int, retention: int | None, rebuilt: bool) -> None:
    completeness = Completeness.stored(0, behind * 1000)
    assert (completeness.rebuild_reason(retention) is not None) == rebuilt


@pytest.mark.parametrize("retention", [0, 1_000, 120_000])
def test_a_topic_that_is_always_written_with_rare_polls(clock: Clock, retention: int) -> None:
    """Regression: with polls each minute, a store that kept up was rebuilt again and again."""
    completeness = Completeness(boot_time())
    interval = longest_poll_interval(retention)
    for second in range(1_000):
        clock.passed += 1.0
        if clock.passed % interval < 1:  # the answer takes 5 s, and the log goes on
            completeness.end_fetched(second + 2, second, clock() - 5.0)
        assert completeness.rebuild_reason(retention) is None
