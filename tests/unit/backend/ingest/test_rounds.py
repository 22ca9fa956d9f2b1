"""How long a round of ingest waits for records, and when it looks at every store partition."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from backend.ingest.consumer import Fetched
from backend.ingest.store_partitions import PartitionRegistry
from backend.storage.data_directory import DataDirectory
from local.waiting import wait_until
from model.problems import StoreError
from model.views import View
from tests.support.in_process.fakes import FakeFetcher, Rec
from tests.support.in_process.ingest import ingest_of
from tests.support.in_process.logs import CollectedDeadLetters
from tests.unit.backend.ingest.test_verification import (
    LOG,
    POSITION,
    SOURCE,
    VIEW,
    Process,
    Watcher,
)


class Consumer(FakeFetcher):
    """Fetches nothing, at once. `waits`: the times (s) for which it was to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def fetch(self, max_records: int, timeout: float, has_news: Any) -> Fetched:
        self.waits.append(timeout)
        return Fetched()


@pytest.mark.parametrize(("others", "expected"), [(0, 0.1), (1, 0.0205), (100, 0.07), (5_000, 0.1)])
def test_it_is_short_while_there_are_partitions_to_open(
    tmp_path: Path, others: int, expected: float
) -> None:
    process = Process(tmp_path, POSITION)
    assigned = {("v", number): "standby" for number in range(others + 1)}  # the topic has one
    process.ingest.lifecycle.assign(assigned, set(), set())
    process.turn()
    consumer = Consumer()
    process.ingest.loop._fetch(cast(Any, consumer))
    assert consumer.waits == [pytest.approx(expected)]
    process.close()


@pytest.mark.slow
def test_an_assignment_in_the_middle_of_a_round_is_not_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: it was found after the wait for records."""
    folder, registry, watcher = DataDirectory(tmp_path), PartitionRegistry((VIEW,)), Watcher()
    ingest = ingest_of((VIEW,), folder, registry, watcher, None, CollectedDeadLetters())
    loop, reconcile = ingest.loop, ingest.lifecycle.reconcile
    watcher.set(POSITION)
    rounds: list[bool] = []  # of each: whether the assignment was known

    def assigning(is_stopping: Any) -> None:
        reconcile(is_stopping)
        rounds.append(bool(ingest.lifecycle._assigned))
        if len(rounds) == 1:
            loop.assign({("v", 0): "active"}, set(), set())

    monkeypatch.setattr(ingest.lifecycle, "reconcile", assigning)
    monkeypatch.setattr("backend.ingest.loop._FETCH_TIMEOUT", 60.0)
    thread = threading.Thread(target=loop.run_until_stopped, daemon=True)
    thread.start()
    try:
        wait_until(lambda: len(rounds) > 1, 20, "the next round", 0.01)
        assert rounds[:2] == [False, True]
    finally:
        loop._stop.set()
        loop._wake.set()
        thread.join(20)
        folder.close()


class Rounds:
    """Runs rounds of an instance with one store partition, and counts the complete ones."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, of: View = VIEW) -> None:
        self.process = Process(root, POSITION, views=[of])
        self.complete = 0
        self.now = 1000.0
        self._reconcile = self.process.ingest.lifecycle.reconcile
        monkeypatch.setattr(self.process.ingest.lifecycle, "reconcile", self._count)
        monkeypatch.setattr("backend.ingest.loop.time.monotonic", lambda: self.now)
        self.process.ingest.loop._complete_at = self.now

    def _count(self, is_stopping: Any) -> None:
        self.complete += 1
        self._reconcile(is_stopping)

    def run(self, seconds: float, *batches: list[Rec]) -> int:
        """Run rounds of 1/16 s. The first rounds fetch these batches. Returns the number of
        complete rounds."""
        before, left = self.complete, list(batches)
        for _ in range(round(seconds * 16)):
            records = left.pop(0) if left else []
            fetched = Fetched({SOURCE: records}, {SOURCE: POSITION}) if records else Fetched()
            self.process.ingest.loop._run_round(lambda found=fetched: found)  # type: ignore[misc]
            self.now += 1 / 16
        return self.complete - before


def test_a_quiet_instance_looks_at_its_partitions_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(tmp_path, monkeypatch)
    assert rounds.run(1.0) == 8, "it catches up"
    assert rounds.run(1.0, LOG[:2], LOG[2:]) > 1
    assert rounds.process.answers
    assert 9 <= rounds.run(10.0) <= 11
    rounds.process.close()


def test_a_quiet_instance_waits_longer_for_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the next complete round, or for 0.1 s; not while it is busy."""
    rounds, consumer = Rounds(tmp_path, monkeypatch), Consumer()
    loop = rounds.process.ingest.loop

    def fetch() -> None:
        loop._fetch(cast(Any, consumer))

    rounds.run(1.0)
    fetch()
    rounds.run(3.0, LOG)
    assert rounds.process.answers
    rounds.now = loop._complete_at - 0.7
    fetch()
    rounds.now = loop._complete_at - 0.2
    fetch()
    rounds.now = loop._complete_at
    fetch()
    assert consumer.waits == [pytest.approx(each) for each in (0.1, 0.7, 0.2, 0.1)]
    rounds.process.close()


def test_records_are_applied_in_each_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: each of up to 100 rounds a second looked at all store partitions."""
    rounds = Rounds(tmp_path, monkeypatch)
    rounds.run(2.0, LOG)
    later = [[Rec(POSITION + number, b"a", b"1")] for number in range(32)]
    assert 9 <= rounds.run(2.0, *later) <= 17
    assert rounds.process.opened().progress.position == POSITION + 32
    rounds.process.close()


@pytest.mark.parametrize("news", ["metadata", "assignment", "rebuild", "closed"])
def test_news_starts_a_complete_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, news: str
) -> None:
    rounds = Rounds(tmp_path, monkeypatch)
    rounds.run(3.5, LOG)
    loop, lifecycle = rounds.process.ingest.loop, rounds.process.ingest.lifecycle
    assert rounds.run(0.125) == 0
    if news == "metadata":
        loop.look()
    elif news == "assignment":
        loop.assign({}, set(), set())
    elif news == "rebuild":
        loop.rebuild("v", 0)
    else:
        rounds.run(0.0625, [Rec(POSITION, b"a", b"1")])
        lifecycle.fail(rounds.process.opened(), StoreError("a full disk", damaged=False))
    assert rounds.run(0.1875) >= 1
    rounds.process.close()


def test_partitions_are_opened_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(tmp_path, monkeypatch)
    rounds.run(3.5, LOG)
    assigned = {("v", number): "standby" for number in range(2)}  # the topic has one
    rounds.process.ingest.loop.assign(assigned, set(), set())
    assert rounds.run(1.0) == 16
    rounds.process.close()


def test_pauses_of_a_quiet_instance_end_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a round that had begun before the end of a pause waited for records meanwhile."""
    rounds = Rounds(tmp_path, monkeypatch)
    rounds.run(3.5, LOG)
    monkeypatch.setattr("backend.ingest.consumer._PAUSE", 3600.0)
    rounds.process.ingest.assignments.pause(SOURCE)
    rounds.process.ingest.loop.look()
    assert rounds.run(1.0) == 8
    rounds.process.close()


@pytest.mark.parametrize("of", [VIEW, replace(VIEW, retention=10**12)], ids=["no", "retention"])
def test_entries_expire_at_the_usual_pace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: View
) -> None:
    rounds = Rounds(tmp_path, monkeypatch, of)
    rounds.run(2.0, LOG)
    assert (rounds.run(2.0) >= 15) is (of.retention is not None)
    rounds.process.close()
