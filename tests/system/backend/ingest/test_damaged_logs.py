"""Records that have changed on a broker's disk are neither served nor skipped."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from backend.ingest import consumer
from backend.ingest.store_partitions import PartitionRegistry
from backend.storage.data_directory import DataDirectory
from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.in_process.examples import view
from tests.support.in_process.ingest import ingest_of
from tests.support.in_process.logs import CollectedDeadLetters
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer
from tests.unit.backend.ingest.test_verification import Watcher

VALUES = [b"value %d " % number * 20 for number in range(3)]


def damage(segment: Path, batch: int) -> None:
    """Change a byte of a batch, or change it back."""
    content = bytearray(segment.read_bytes())
    end = 0
    for _ in range(batch + 1):
        _, length = struct.unpack_from(">qi", content, end)
        end += 12 + length
    with segment.open("r+b") as file:
        file.seek(end - 15)
        file.write(bytes([content[end - 15] ^ 0x55]))


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_damaged_batch_is_read_again_until_it_is_repaired(
    tmp_path: Path,
    broker: Broker,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    compression: str,
) -> None:
    errors: list[str] = []
    monkeypatch.setattr(consumer._errors, "warn", lambda _, message: errors.append(message))
    monkeypatch.setattr(consumer, "_PAUSE", 0.1)
    topic = make_topic(1)
    writer = Writer(broker.bootstrap_servers, **{"compression.type": compression})
    for number, value in enumerate(VALUES):
        writer.send(topic, [(b"%d" % number, value)])
    [segment] = (broker.data_dir / "logs" / f"{topic}-0").glob("*.log")
    damage(segment, 1)
    of = view("v", topic=topic, key="bytes", value="bytes")
    folder, registry, watcher = DataDirectory(tmp_path), PartitionRegistry((of,)), Watcher()
    ingest = ingest_of((of,), folder, registry, watcher, None, CollectedDeadLetters())
    ingest.lifecycle.assign({("v", 0): "active"}, set(), set())
    watcher.set(len(VALUES))
    watcher.latest[topic] = watcher.latest["t"]
    loop = ingest.loop
    cast(Any, loop)._client_settings = {
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "unused",
    }  # fmt: skip

    def position() -> int:
        found = registry.get("v", 0)
        return -1 if found is None else found.progress.position

    thread = threading.Thread(target=loop.run_until_stopped)
    thread.start()
    try:
        wait_until(lambda: len(errors) >= 12, 30, "the damage")
        assert position() == 1
        damage(segment, 1)
        wait_until(lambda: position() == len(VALUES), 30, "all records")
        found = registry.get("v", 0)
        assert found is not None
        stored = [found.store.get(of.layout.stored_key(b"%d" % n, 0)) for n in range(3)]
        assert [None if each is None else each[16:] for each in stored] == VALUES
        assert loop.rebuilds == 0
    finally:
        loop._stop.set()
        thread.join(30)
        folder.close()
