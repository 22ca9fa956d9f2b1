"""Tests of ingest when a store fails: it continues with the store reopened, rebuilt or closed."""

from pathlib import Path
from typing import Any, cast

import pytest

from backend.ingest.consumer import Fetched
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.storage.data_directory import DataDirectory
from model.problems import StoreError
from model.progress import Progress
from tests.support.in_process.examples import metadata, view
from tests.support.in_process.fakes import FakeFetcher, FakeWatcher, Rec
from tests.support.in_process.ingest import ingest_of, ingest_without_broker
from tests.support.in_process.logs import NoSnapshots
from tests.unit.backend.ingest.test_verification import LAST, LOG, POSITION, Process
from tests.unit.backend.queries.scans.any_partition import cluster


@pytest.mark.parametrize("damaged", [True, False])
def test_a_store_that_cannot_be_read_does_not_stop_ingest(tmp_path: Path, damaged: bool) -> None:
    of = view("v", retention=10)
    folder, registry = DataDirectory(tmp_path), PartitionRegistry((of,))
    store, _ = folder.open("v", 0)
    store.initialise(0, metadata(of))
    store.stream_time = 1000

    def scan(*bounds: Any, **how: Any) -> Any:
        raise StoreError("Corruption", damaged=damaged)

    cast(Any, store).scan = scan
    registry.add(StorePartition(of, 0, store, Progress(0, 0, True), metadata(of), 0.0))
    ingest = ingest_without_broker(of, folder, registry)
    ingest.applier.expire()
    assert registry.get("v", 0) is None
    assert ingest.loop.rebuilds == damaged
    assert bool(list((tmp_path / "v").glob("0.aside-*"))) == damaged
    folder.close()


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("damaged", [True, False])
def test_a_store_that_cannot_be_written_gets_no_later_records(
    tmp_path: Path, damaged: bool
) -> None:
    """Else they would be applied without those that were not written. Other views continue."""
    views = (view("v", topic="t"), view("other", topic="t"))
    folder, registry = DataDirectory(tmp_path), PartitionRegistry(views)
    for of in views:
        store, _ = folder.open(of.name, 0)
        store.initialise(0, metadata(of))
        registry.add(StorePartition(of, 0, store, Progress(0, 0, True), metadata(of), 0.0))
    store = registry.all()[0].store
    write, positions = store.write, list[int]()

    def fail_for_the_second(batch: Any, position: int, *rest: Any) -> None:
        positions.append(position)
        if position >= 2:
            raise StoreError("No space left on device", damaged=damaged)
        write(batch, position, *rest)

    cast(Any, store).write = fail_for_the_second
    poller = FakeWatcher()
    cast(Any, poller).refresh = lambda: None
    ingest = ingest_of(views, folder, registry, poller, FakeFetcher())
    log = [Rec(number, b"key", b'{"n": %d}' % number) for number in range(5)]
    ingest.applier.apply(Fetched({("t", 0): cast(Any, log)}))
    assert len([position for position in positions if position >= 2]) == 1
    assert registry.get("v", 0) is None
    assert ingest.loop.rebuilds == damaged
    other = registry.get("other", 0)
    assert other is not None
    assert other.progress.position == 5
    folder.close()


def test_a_rebuild_that_an_operator_asks_for_may_fetch_another_copy(tmp_path: Path) -> None:
    forgotten: list[tuple[str, int]] = []

    class Snapshots(NoSnapshots):
        def forget(self, view: str, partition: int) -> None:
            forgotten.append((view, partition))

    with cluster(tmp_path) as made:
        lifecycle = made.nodes["b1"].ingest.lifecycle
        lifecycle._snapshots = cast(Any, Snapshots())
        lifecycle.ask_for_rebuild("orders", 0)
        made.settle()
        assert lifecycle.rebuilds == 1
        assert ("orders", 0) in forgotten, "else the former copy would count"


@pytest.mark.slow
def test_a_store_whose_closing_fails_does_not_stop_ingest(tmp_path: Path) -> None:
    """On a full disk, RocksDB reports that it could not flush. It is closed nevertheless."""
    of = view("v")
    folder, registry = DataDirectory(tmp_path), PartitionRegistry((of,))
    for partition in (0, 1):
        store, _ = folder.open("v", partition)
        store.initialise(0, metadata(of))
        close = store.close

        def fail(close: Any = close) -> None:
            close()
            raise OSError("No space left on device")

        cast(Any, store).close = fail
        registry.add(StorePartition(of, partition, store, Progress(0, 0, True), metadata(of), 0.0))
    ingest = ingest_without_broker(of, folder, registry)
    first = registry.get("v", 0)
    assert first is not None
    ingest.lifecycle.fail(first, StoreError("No space left on device", damaged=False))
    ingest.loop._stop.set()
    ingest.loop.run_until_stopped()
    assert registry.all() == []
    for partition in (0, 1):
        store, reason = folder.open("v", partition)
        assert reason is None
        store.close()
    folder.close()


def test_after_a_failure_of_ingest_a_partition_with_new_records_is_not_rebuilt(
    tmp_path: Path,
) -> None:
    """Regression: the log seemed to end before the records that were applied since a poll."""
    process = Process(tmp_path, LAST.at)
    process.turn(LOG[:2], LAST.at)
    process.turn([LAST], POSITION)
    process.ingest.lifecycle.close_all()
    process.turn()
    assert process.ingest.loop.rebuilds == 0
    process.watcher.set(POSITION)
    process.turn()
    process.turn([LAST], POSITION)
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)
    process.close()


def test_a_store_that_cannot_be_written_when_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is at the end of the empty log, and to note it fails. RocksDB opens a store only once."""
    process = Process(tmp_path, 0)
    lifecycle = process.ingest.lifecycle
    lifecycle.assign({}, set(), set())
    process.turn()
    is_full = True
    open_store = process.folder.open

    def open_on_full_disk(*of: Any) -> Any:
        store, reason = open_store(*of)
        write = store.write

        def fail(*batch: Any) -> None:
            if is_full:
                raise StoreError("No space left on device", damaged=False)
            write(*batch)

        monkeypatch.setattr(store, "write", fail)
        return store, reason

    monkeypatch.setattr(process.folder, "open", open_on_full_disk)
    monkeypatch.setattr("backend.ingest.lifecycle.partitions._RETRY_AFTER", 0)
    lifecycle.assign({("v", 0): "active"}, set(), set())
    process.watcher.set(0)
    process.turn()
    assert process.registry.get("v", 0) is None
    is_full = False
    process.watcher.set(0)
    process.turn()
    assert (process.answers, process.ingest.loop.rebuilds) == (True, 0)
    process.close()
