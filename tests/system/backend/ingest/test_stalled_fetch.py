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
from backend.ingest.store_partitions import PartitionRegistry
from backend.storage.data_directory import DataDirectory
from local.kafka.broker import Broker
from local.waiting import wait_until
from model.progress import Progress
from tests.support.in_process.examples import view
from tests.support.in_process.ingest import ingest_of
from tests.support.in_process.logs import CollectedDeadLetters, NoSnapshots
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer
from tests.unit.backend.ingest.test_verification import Watcher


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
