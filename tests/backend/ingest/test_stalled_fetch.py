"""A consumer that fetches nothing, although there are records, is replaced."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backend.ingest import loop as loop_module
from backend.ingest import stalled_fetch
from backend.ingest.consumer import RecordConsumer, Source
from backend.ingest.stalled_fetch import StalledFetch
from backend.ingest.store_partitions import PartitionRegistry
from backend.storage.data_directory import DataDirectory
from local.kafka.broker import Broker
from local.waiting import wait_until
from model.progress import Progress
from tests.backend.ingest.test_verification import Watcher
from tests.support.in_process.examples import view
from tests.support.in_process.ingest import ingest_of
from tests.support.in_process.logs import CollectedDeadLetters, NoSnapshots
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer

LIMIT = stalled_fetch._MIN_CHECKS


class Fetching:
    """Store partitions without stores, and a clock: a call of `second` is a second."""

    def __init__(self, *partitions: Any) -> None:
        self.partitions = partitions
        self.now = 0.0
        registry: Any = SimpleNamespace(all=lambda: self.partitions)
        self.detector = StalledFetch(registry, 5.0, lambda: self.now)

    def second(self, end: int | None = 10) -> tuple[str, int] | None:
        """`end`: of the logs, as the broker says; None: it does not answer."""
        self.now += 1
        for each in self.partitions:
            if end is not None:
                each.progress.end_fetched(end, self.now)
        return self.detector.stalled()

    def seconds_until_stalled(self, most: int = 2000) -> int | None:
        return next((n for n in range(1, most + 1) if self.second() is not None), None)


def partition(
    position: int, number: int = 0, waiting_for: object = None, to_verify: object = None
) -> Any:
    return SimpleNamespace(
        view=SimpleNamespace(name="v"),
        partition=number,
        progress=Progress(position, position, True),
        waiting_for=waiting_for,
        to_verify=to_verify,
    )


def test_one_that_stays_behind_is_found() -> None:
    fetching = Fetching(partition(10), partition(4, 1))
    assert [fetching.second() for _ in range(LIMIT)] == [None] * LIMIT
    assert fetching.second() == ("v", 1)


def test_one_that_waits_for_the_comparison_of_its_last_record_is_found() -> None:
    """Regression: at the end of its log, it was catching up for ever."""
    assert Fetching(partition(10, to_verify="record 9")).seconds_until_stalled(100) == LIMIT + 1


def test_after_each_one_it_waits_longer_until_all_have_caught_up() -> None:
    behind = partition(4)
    fetching = Fetching(behind)
    found = [fetching.seconds_until_stalled() for _ in range(7)]
    assert found == [16, 31, 61, 121, 241, 301, 301]
    behind.progress.applied(10)
    fetching.second()
    behind.progress.applied(9)
    assert fetching.seconds_until_stalled() == LIMIT + 1


def test_one_that_advances_is_not_stalled() -> None:
    behind = partition(0)
    fetching = Fetching(behind)
    for position in range(200):
        behind.progress.applied(position // 10)
        assert fetching.second(1000) is None


def test_one_that_waits_for_a_schema_is_not_stalled() -> None:
    assert Fetching(partition(4, waiting_for="schema 7")).seconds_until_stalled(100) is None


def test_nothing_is_stalled_while_the_broker_does_not_answer() -> None:
    fetching = Fetching(partition(4))
    fetching.second()
    assert [fetching.second(None) for _ in range(100)] == [None] * 100


def test_a_blocked_thread_is_no_stalled_fetch() -> None:
    fetching = Fetching(partition(4))
    fetching.second()
    fetching.now += 1000
    assert fetching.second() is None


@pytest.mark.broker
def test_the_consumer_is_replaced(
    tmp_path: Path,
    broker: Broker,
    make_topic: MakeTopic,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Regression: after an outage of the broker an instance read nothing more, with no error."""
    topic = make_topic(1)
    writer.table(topic, {"a": 1, "b": 2})
    created: list[RecordConsumer] = []

    class FirstIsStuck(RecordConsumer):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            created.append(self)

        def assign(self, source: Source, position: int, leader_epoch: int) -> None:
            if self is not created[0]:
                super().assign(source, position, leader_epoch)

    monkeypatch.setattr(loop_module, "RecordConsumer", FirstIsStuck)
    monkeypatch.setattr(stalled_fetch, "_INTERVAL", 0.02)
    of = view("v", topic=topic)
    folder, registry, watcher = DataDirectory(tmp_path), PartitionRegistry((of,)), Watcher()
    ingest = ingest_of(
        (of,), folder, registry, watcher, None, CollectedDeadLetters(), NoSnapshots()
    )
    ingest.lifecycle.assign({("v", 0): "active"}, set(), set())
    watcher.set(2)
    watcher.latest[topic] = watcher.latest["t"]
    loop = ingest.loop
    cast(Any, loop)._client_settings = {
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "unused",
    }  # fmt: skip
    thread = threading.Thread(target=loop.run_until_stopped)
    thread.start()
    try:
        wait_until(
            lambda: (found := registry.get("v", 0)) is not None and found.progress.position == 2,
            30, "the records",
        )  # fmt: skip
    finally:
        loop._stop.set()
        thread.join(30)
        folder.close()
    assert not thread.is_alive()
    assert len(created) == 2
    assert "view v, partition 0 has records, but none is fetched" in caplog.text
