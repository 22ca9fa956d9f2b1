"""Tests of what is done some time after loads: files are compacted, and memory is released."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend.ingest.lifecycle.recovery import open_partition
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import PartitionRegistry
from backend.storage.data_directory import DataDirectory
from backend.storage.options import LEVEL0_FILES, Tuning
from backend.storage.rocksdb_store import RocksDBStore
from local.waiting import wait_until
from tests.support.in_process.examples import view
from tests.support.in_process.ingest import ingest_without_broker
from tests.unit.backend.storage.data_directories import copy_files
from tests.unit.backend.storage.loads import (
    entries,
    entries_at,
    has_vector_memtable,
    key,
    new_store,
    write,
)
from tests.unit.backend.storage.store_writer import TUNING


def bulk_loaded(folder: DataDirectory) -> RocksDBStore:
    """A store after a bulk load, with more files than RocksDB keeps otherwise."""
    store = new_store(folder)
    store.begin_bulk_load(until=1_000_000)
    while level0_files(store) <= LEVEL0_FILES:
        write(store, position(store) + 1_000)
        store._db.flush()
    store.get(key(1))  # a read ends the load
    store.finish_load()
    assert not has_vector_memtable(store)
    return store


def position(store: RocksDBStore) -> int:
    assert store.position is not None
    return store.position


def finish_after(seconds: float, store: RocksDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with at(time.monotonic() + seconds, monkeypatch):
        store.finish_load()


@contextmanager
def at(moment: float, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: moment)
        yield


def wait_until_compacted(store: RocksDBStore) -> None:
    wait_until(lambda: level0_files(store) == 0, 20, "the files to be compacted")


def is_compacting(store: RocksDBStore) -> bool:
    names = ("compaction-pending", "num-running-compactions")
    return any(store._estimate(name) for name in names)


def test_files_are_compacted_some_time_after_a_bulk_load(
    folder: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just after it, other stores are still loaded, and need the processors."""
    store = bulk_loaded(folder)
    assert not is_compacting(store)
    finish_after(6, store, monkeypatch)
    wait_until_compacted(store)
    assert entries(store) == entries_at(position(store))
    store.close()


def test_files_of_a_copy_are_compacted_some_time_later(
    tmp_path: Path, folder: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is opened, other stores are still loaded."""
    source = bulk_loaded(folder)
    files = level0_files(source)
    source.close()
    other = DataDirectory(tmp_path / "other", TUNING)
    snapshot = other.new_snapshot("orders", 0)
    copy_files(source.path, snapshot)
    other.install(snapshot, "orders", 0)
    store, _ = other.open("orders", 0)
    assert isinstance(store, RocksDBStore)
    assert level0_files(store) >= files > LEVEL0_FILES
    assert not is_compacting(store)
    finish_after(6, store, monkeypatch)
    wait_until_compacted(store)
    assert entries(store) == entries_at(position(store))
    store.close()
    store, _ = other.open("orders", 0)
    assert isinstance(store, RocksDBStore)
    with at(time.monotonic() + 6, monkeypatch):
        assert not store.finish_load(), "it is no new copy any more"
    store.close()
    other.close()


def test_writes_continue_if_a_store_is_opened_again_before_its_files_are_compacted(
    folder: DataDirectory,
) -> None:
    """Regression: by default, RocksDB stops writes at 36 files, here for 0.4 s if each has 2 MB.
    Writes hold the interpreter lock meanwhile."""
    store = new_store(folder)
    store.begin_bulk_load(until=60_000)
    while level0_files(store) < Tuning().bulk_load_files - 1:
        write(store, position(store) + 100)
        store._db.flush()
    store.close()
    store, _ = folder.open("orders", 0)
    assert isinstance(store, RocksDBStore)
    engine = store.engine()
    assert engine is not None
    assert not engine.writes_stopped
    store.close()


def test_a_store_whose_files_cannot_be_compacted_yet_can_be_used(
    folder: DataDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """RocksDB stores its options in a file when they change. Here, it cannot write that file."""
    store = bulk_loaded(folder)
    names = [f"OPTIONS-{number:06d}.dbtmp" for number in range(200)]
    for name in names:
        (store.path / name).mkdir()
    finish_after(6, store, monkeypatch)
    assert "are not compacted yet" in caplog.text
    for name in names:
        (store.path / name).rmdir()
    write(store, position(store) + 500)
    assert entries(store) == entries_at(position(store))
    finish_after(40, store, monkeypatch)
    wait_until_compacted(store)
    assert entries(store) == entries_at(position(store))
    store.close()


def level0_files(store: RocksDBStore) -> int:
    engine = store.engine()
    assert engine is not None
    return engine.level0_files


def test_free_memory_is_released_once_after_the_last_bulk_load(
    folder: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = view()
    topic_metadata = TopicMetadata("topic-1", 2, {0: 0, 1: 0}, {0: 20_000, 1: 20_000}, None, 0.0)
    registry = PartitionRegistry((of,))
    released_at: list[float] = []
    ingest = ingest_without_broker(
        of, folder, registry, lambda: released_at.append(time.monotonic())
    )
    stores = []
    for partition in (0, 1):
        opened, _ = open_partition(folder, of, partition, topic_metadata, 10_000)
        registry.add(opened)
        assert isinstance(opened.store, RocksDBStore)
        stores.append(opened.store)
    began = time.monotonic()
    with at(began, monkeypatch):
        write(stores[0], 20_000)
    with at(began + 6, monkeypatch):
        ingest.applier.expire()
        write(stores[1], 20_000)
    for seconds in (8, 12, 14, 18, 24, 60):
        with at(began + seconds, monkeypatch):
            ingest.applier.expire()
    assert released_at == [began + 18]
    for store in stores:
        store.close()
