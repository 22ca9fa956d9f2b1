"""Tests of bulk loads: many writes before the first read."""

import threading
import time

import pytest

from backend.ingest.lifecycle.recovery import open_partition
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import PartitionRegistry
from backend.storage.data_directory import DataDirectory
from backend.storage.rocksdb_store import RocksDBStore
from model.problems import StoreClosedError, StoreError
from model.views import View
from tests.support.in_process.examples import view
from tests.support.in_process.ingest import ingest_without_broker
from tests.unit.backend.storage.loads import (
    BATCH,
    FAR_POSITION,
    entries,
    entries_at,
    has_vector_memtable,
    key,
    new_store,
    write,
)


def test_a_bulk_load_ends_at_the_given_position(folder: DataDirectory) -> None:
    store = new_store(folder)
    store.begin_bulk_load(until=20_000)
    write(store, 19_999)
    assert has_vector_memtable(store)
    write(store, 20_000)
    assert not has_vector_memtable(store)
    assert entries(store) == entries_at(20_000)
    write(store, 21_000)
    assert entries(store) == entries_at(21_000)
    store.close()


def test_it_writes_no_write_ahead_log(folder: DataDirectory) -> None:
    store = new_store(folder)
    store.begin_bulk_load(until=5_000)
    write(store, 4_500)
    assert sum(log.stat().st_size for log in store.path.glob("*.log")) == 0
    write(store, 5_500)
    assert sum(log.stat().st_size for log in store.path.glob("*.log")) > 0
    store.close()


def test_earlier_entries_are_not_lost(folder: DataDirectory) -> None:
    store = new_store(folder)
    write(store, 1_000)
    store.begin_bulk_load(until=FAR_POSITION)
    assert (store.position, entries(store)) == (1_000, entries_at(1_000))
    store.close()


@pytest.mark.parametrize("method", ["get", "get_many", "scan"])
def test_a_read_is_correct_and_ends_the_bulk_load(folder: DataDirectory, method: str) -> None:
    store = new_store(folder)
    store.begin_bulk_load(until=FAR_POSITION)
    write(store, 3_500)
    expected = entries_at(3_500)
    if method == "get":
        assert store.get(key(4)) == expected[key(4)]
        assert store.get(key(5)) is None
    elif method == "get_many":
        assert store.get_many([key(4), key(5)]) == [expected[key(4)], None]
    else:
        assert entries(store) == expected
    assert has_vector_memtable(store)
    store.finish_load()
    assert not has_vector_memtable(store)
    assert entries(store) == entries_at(3_500)
    write(store, 4_000)
    assert entries(store) == entries_at(4_000)
    store.close()


def test_nothing_is_lost_if_the_store_is_closed_during_a_bulk_load(folder: DataDirectory) -> None:
    store = new_store(folder)
    store.begin_bulk_load(until=FAR_POSITION)
    write(store, 3_500)
    store.finish_load()
    assert has_vector_memtable(store), "there was no read"
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        store.get(key(4))
    store, reason = folder.open("orders", 0)
    assert reason is None
    assert (store.position, dict(store.scan(b"\x01", b"\x02"))) == (3_500, entries_at(3_500))
    store.close()


def test_a_concurrent_reader_gets_correct_values_or_store_closed(folder: DataDirectory) -> None:
    """It must not get an error of a damaged store, which would cause a rebuild."""
    store = new_store(folder)
    write(store, BATCH)
    reads, errors, stop = [0], [], threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                reads[0] += store.get(b"\x01never deleted") == b"1"
            except StoreClosedError:
                time.sleep(0)
            except BaseException as e:
                errors.append(e)

    batch = store.new_batch()
    batch.put(b"\x01never deleted", b"1")
    store.write(batch, BATCH)
    reader = threading.Thread(target=read)
    reader.start()
    for round_ in range(8):
        store.begin_bulk_load(until=FAR_POSITION)
        write(store, BATCH * (round_ * 2 + 3))
        store.finish_load()
    before, deadline = reads[0], time.monotonic() + 10
    while reads[0] == before and time.monotonic() < deadline:
        time.sleep(0.001)
    stop.set()
    reader.join(10)
    assert errors == []
    assert reads[0] > before
    store.close()


def test_a_read_of_a_database_that_was_just_closed_raises_store_closed(
    folder: DataDirectory,
) -> None:
    """The database is closed for reopening, but the store is not marked as closed."""
    store = new_store(folder)
    write(store, BATCH)
    scan = store.scan(b"\x01", b"\x02")
    next(scan)
    store._db.close()
    with pytest.raises(StoreClosedError):
        store.get(key(4))
    with pytest.raises(StoreClosedError):
        list(scan)


def test_reopening_fails_during_a_scan_without_damage(folder: DataDirectory) -> None:
    """An iterator keeps the database open, so ingest opens the store partition again later."""
    store = new_store(folder)
    store.begin_bulk_load(until=FAR_POSITION)
    write(store, 3_500)
    scan = store.scan(b"\x01", b"\x02")
    first = next(scan)
    with pytest.raises(StoreError) as raised:
        store.finish_load()
    assert not raised.value.damaged
    assert first[0] in entries_at(3_500)
    with pytest.raises(StoreClosedError):
        list(scan)
    store.close()
    reopened, reason = folder.open("orders", 0)
    assert reason is None
    assert (reopened.position, dict(reopened.scan(b"\x01", b"\x02"))) == (3_500, entries_at(3_500))
    reopened.close()


@pytest.mark.parametrize(
    ("of", "end", "loads"),
    [
        (view("orders"), 100_000, True),
        (view("orders"), 5_000, False),
        # expiry reads the store
        (view("orders", retention=1000), 100_000, False),
        (view("orders", persistence="memory"), 100_000, False),
    ],
    ids=["large lag", "small lag", "retention", "memory"],
)
@pytest.mark.slow
def test_a_store_with_a_large_lag_is_bulk_loaded(
    folder: DataDirectory, of: View, end: int, loads: bool
) -> None:
    topic_metadata = TopicMetadata("topic-1", 1, {0: 0}, {0: end}, None, 0.0)
    store_partition, _ = open_partition(folder, of, 0, topic_metadata, 10_000)
    store = store_partition.store
    assert isinstance(store, RocksDBStore)
    in_memory = of.persistence == "memory"
    assert (not in_memory and has_vector_memtable(store)) is loads
    write(store, end)
    assert in_memory or not has_vector_memtable(store)
    assert entries(store) == entries_at(end)
    store.close()


def test_expiry_ends_a_bulk_load_after_a_read_even_without_new_records(
    folder: DataDirectory,
) -> None:
    of = view()
    topic_metadata = TopicMetadata("topic-1", 1, {0: 0}, {0: FAR_POSITION}, None, 0.0)
    registry = PartitionRegistry((of,))
    store_partition, _ = open_partition(folder, of, 0, topic_metadata, 10_000)
    registry.add(store_partition)
    store = store_partition.store
    assert isinstance(store, RocksDBStore)
    write(store, 1_000)
    ingest = ingest_without_broker(of, folder, registry)
    ingest.applier.expire()
    assert has_vector_memtable(store)
    store.get(key(4))
    ingest.applier.expire()
    assert not has_vector_memtable(store)
    store.close()


@pytest.mark.slow
def test_an_answerable_store_is_not_bulk_loaded(folder: DataDirectory) -> None:
    store = new_store(folder)
    write(store, 90_000)
    store.close()
    topic_metadata = TopicMetadata("topic-1", 1, {0: 0}, {0: 110_000}, None, 0.0)
    store_partition, reason = open_partition(
        folder, view("orders"), 0, topic_metadata, acceptable_recovery_lag=20_000
    )
    assert (reason, store_partition.progress.answerable) == (None, True)
    assert isinstance(store_partition.store, RocksDBStore)
    assert not has_vector_memtable(store_partition.store)
    store_partition.store.close()
