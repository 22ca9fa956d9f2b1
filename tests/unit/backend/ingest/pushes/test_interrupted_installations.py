"""A push whose installation is interrupted changes no answer, and it is installed later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.consumer import Fetched
from backend.ingest.pushes import push_fetcher
from backend.storage.data_directory import DataDirectory
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.pushes import push
from tests.support.reference.tables import Record

RECORDS = 20


@pytest.fixture
def cluster(tmp_path: Path, folder: Path) -> Iterator[Cluster]:
    """One instance and one partition, with records of one key."""
    made = Cluster(tmp_path, replace(ORDERS, push=str(folder)), instances=1, partitions=1)
    made.place([0])
    for offset in range(RECORDS):
        made.write(Record(offset, b"live", (), b"%d" % offset, 1_000), 0)
    made.settle()
    yield made
    made.close()


def settle(cluster: Cluster) -> None:
    for transfer in cluster.nodes["b1"].pushes.transfers.values():
        transfer.retry_at = 0
    for _ in range(3):
        cluster.settle()


def value(cluster: Cluster, key: str) -> Any:
    """The value of a key, or the status of an answer without one."""
    answer = cluster.ask("b1", "GET", f"/orders/{key}")
    return json.loads(answer.body)["value"] if answer.status == 200 else answer.status


def begin(cluster: Cluster) -> None:
    """Until a store with the push is catching up."""
    for _ in range(10):
        cluster.turn("b1", most=1)
        if cluster.nodes["b1"].store_partitions.candidates():
            return
    raise AssertionError("the push was not fetched")


def test_a_full_disk_at_the_installation_leaves_the_current_store(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left on the disk")

    node = cluster.nodes["b1"]
    push(folder, cluster.view, [0], {"pushed": "1"})
    with monkeypatch.context() as patch:
        patch.setattr(node.folder, "replace", fail)
        for _ in range(3):
            cluster.settle()
        assert (value(cluster, "live"), value(cluster, "pushed")) == (RECORDS - 1, 404)
        [document] = node.pushes.documents(["orders"])
        assert [each["error"] for each in document["transfers"]] == [
            "OSError: no space left on the disk"
        ]
        assert node.store_partitions.candidates() == []
    settle(cluster)
    assert (value(cluster, "live"), value(cluster, "pushed")) == (RECORDS - 1, 1)


def test_a_store_behind_the_push_goes_on_from_its_own_position(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: after the failure it went on from the push's offset, without the records
    before."""

    def fail(*_: object) -> None:
        raise OSError("no space left on the disk")

    for offset in range(RECORDS, RECORDS + 9):
        cluster.write(Record(offset, b"late %d" % offset, (), b"1", 1_000), 0)
    push(folder, cluster.view, [RECORDS + 9], {"pushed": "1"})
    node = cluster.nodes["b1"]
    with monkeypatch.context() as patch:
        patch.setattr(node.folder, "replace", fail)
        for _ in range(4):
            cluster.turn("b1", most=1)
        assert [each["error"] for each in node.pushes.documents(["orders"])[0]["transfers"]] == [
            "OSError: no space left on the disk"
        ]
    cluster.settle()
    assert value(cluster, f"late {RECORDS + 8}") == 1


def test_a_log_without_the_records_of_a_push_does_not_cost_the_current_store(
    cluster: Cluster, folder: Path
) -> None:
    """Retention deletes the records after the push's offset, which the current store has."""
    push(folder, cluster.view, [0], {"pushed": "1"})
    begin(cluster)
    node = cluster.nodes["b1"]
    current = node.store_partitions.get("orders", 0)
    node.ingest.applier.apply(Fetched(lost=[(cluster.view.topic, 0)]))
    assert node.store_partitions.candidates() == []
    assert node.store_partitions.get("orders", 0) is current
    assert value(cluster, "live") == RECORDS - 1
    # without a store that catches up, it is the current store that misses records
    node.ingest.applier.apply(Fetched(lost=[(cluster.view.topic, 0)]))
    assert node.store_partitions.get("orders", 0) is None


def test_a_store_that_ingest_takes_at_once_stays_on_the_disk(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ingest may take it right after the thread that fetches has set it."""
    node = cluster.nodes["b1"]
    taken: list[Path] = []

    class Taken(push_fetcher.PushTransfer):
        def __setattr__(self, name: str, given: Any) -> None:
            super().__setattr__(name, given)
            metadata = node.metadata_poller.get(cluster.view.topic)
            if name == "store" and given is not None and metadata is not None:
                store = node.pushes.take(cluster.view, 0, "", metadata)
                assert store is not None
                taken.append(store)

    monkeypatch.setattr(push_fetcher, "PushTransfer", Taken)
    push(folder, cluster.view, [0], {"pushed": "1"})
    cluster.turn("b1")  # ingest requests it
    cluster.turn("b1")
    assert [path.is_dir() for path in taken] == [True]


def test_a_store_that_is_opened_again_after_the_installation_stays_on_the_disk(
    cluster: Cluster, folder: Path
) -> None:
    """It gets the name of the store that it has replaced, whose folder is deleted after a while."""
    push(folder, cluster.view, [RECORDS], {"pushed": "1"})
    for _ in range(3):
        cluster.settle()
    node = cluster.nodes["b1"]
    pushes = node.ingest.lifecycle._pushes
    installed = node.store_partitions.get("orders", 0)
    assert installed is not None
    assert pushes is not None
    node.ingest.lifecycle.close(installed)
    cluster.settle()
    assert value(cluster, "pushed") == 1
    pushes.close_retired()
    assert [path.name for path in (node.folder.root / "orders").iterdir()] == ["0"]
    cluster.stop("b1")
    cluster.start("b1")
    cluster.settle()
    assert value(cluster, "pushed") == 1


def test_a_store_whose_creation_was_interrupted_does_not_take_the_place_of_the_push(
    cluster: Cluster,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Regression: the damaged store was set aside, and the disk was too full for an empty one. The
    next attempt read the topic into it, and pushed keys were 404 until the push was fetched."""
    push(folder, cluster.view, [0], {"pushed": "1"})
    settle(cluster)
    assert value(cluster, "pushed") == 1
    store = cluster.nodes["b1"].folder.path("orders", 0)
    cluster.stop("b1")
    (store / "CURRENT").write_bytes(b"damaged")
    open_store, attempts = DataDirectory._open, 0

    def open_until_full(self: DataDirectory, path: Path, is_copy: bool = False) -> Any:
        nonlocal attempts
        attempts += 1
        if attempts == 2:
            raise OSError("IO error: No space left on device")
        return open_store(self, path, is_copy)

    monkeypatch.setattr(DataDirectory, "_open", open_until_full)
    cluster.start("b1")
    answers = set()
    for _ in range(10):
        cluster.nodes["b1"].ingest.lifecycle._open_after.clear()
        cluster.turn("b1")
        answers.add(value(cluster, "pushed"))
    assert attempts > 2
    assert caplog.text.count("No space left on device") == 1
    assert answers == {503, 1}
