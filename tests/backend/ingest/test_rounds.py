"""How long a round of ingest waits for records."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from backend.ingest.consumer import Fetched
from backend.ingest.store_partitions import PartitionRegistry
from backend.storage.data_directory import DataDirectory
from local.waiting import wait_until
from tests.backend.ingest.test_verification import POSITION, VIEW, Process, Watcher
from tests.support.in_process.fakes import FakeFetcher
from tests.support.in_process.ingest import ingest_of
from tests.support.in_process.logs import CollectedDeadLetters


class Consumer(FakeFetcher):
    """Fetches nothing, at once. `waits`: the times (s) for which it was to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def fetch(self, max_records: int, timeout: float) -> Fetched:
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
