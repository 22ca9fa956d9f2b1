"""Store partitions that much is written to before anything is read."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.ingest.lifecycle.recovery import open_partition
from backend.ingest.store_partitions import PartitionRegistry
from backend.ingest.topic_metadata import TopicMetadata
from backend.storage.data_directory import DataDirectory
from backend.storage.rocksdb_store import RocksDBStore
from model.problems import StoreClosedError, StoreError
from model.views import View
from tests.backend.storage.store_writer import TUNING
from tests.support.in_process.examples import metadata, view
from tests.support.in_process.ingest import ingest_without_broker

BATCH = 500
FAR = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataDirectory]:
    folder = DataDirectory(tmp_path, TUNING)
    yield folder
    folder.close()


def new_store(folder: DataDirectory) -> RocksDBStore:
    store, _ = folder.open("orders", 0)
    assert isinstance(store, RocksDBStore)
    store.initialise(0, metadata(view()))
    return store


def key(n: int) -> bytes:
    return b"\x01key %d" % (n % 700)


def write(store: RocksDBStore, end: int) -> None:
    """Each key again and again, every fifth time a delete, up to the position `end`."""
    assert store.position is not None
    while store.position < end:
        batch, until = store.new_batch(), min(end, store.position + BATCH)
        for n in range(store.position, until):
            if n % 5:
                batch.put(key(n), b"%d" % n * 40)
            else:
                batch.delete(key(n))
        store.write(batch, until)


def written(end: int) -> dict[bytes, bytes]:
    """What is stored at the position `end`."""
    latest = {key(n): n for n in range(end)}
    return {of: b"%d" % n * 40 for of, n in latest.items() if n % 5}


def entries(store: RocksDBStore) -> dict[bytes, bytes]:
    return dict(store.scan(b"\x01", b"\x02"))


def lists(store: RocksDBStore) -> bool:
    """Whether its memtables are lists now, as RocksDB's own log says."""
    said = (store.path / "LOG").read_text()
    return "memtable_factory: VectorRepFactory" in said


def test_it_ends_at_the_position(folder: DataDirectory) -> None:
    store = new_store(folder)
    store.begin_bulk_load(until=20_000)
    write(store, 19_999)
    assert lists(store)
    write(store, 20_000)
    assert not lists(store)
    assert entries(store) == written(20_000)
    write(store, 21_000)
    assert entries(store) == written(21_000)
    store.close()


def test_what_was_there_before_stays(folder: DataDirectory) -> None:
    store = new_store(folder)
    write(store, 1_000)
    store.begin_bulk_load(until=FAR)
    assert (store.position, entries(store)) == (1_000, written(1_000))
    store.close()


@pytest.mark.parametrize("how", ["get", "get_many", "scan"])
def test_a_read_is_right_and_ends_it(folder: DataDirectory, how: str) -> None:
    store = new_store(folder)
    store.begin_bulk_load(until=FAR)
    write(store, 3_500)
    expected = written(3_500)
    if how == "get":
        assert store.get(key(4)) == expected[key(4)]
        assert store.get(key(5)) is None
    elif how == "get_many":
        assert store.get_many([key(4), key(5)]) == [expected[key(4)], None]
    else:
        assert entries(store) == expected
    assert lists(store)
    store.end_bulk_load()
    assert not lists(store)
    assert entries(store) == written(3_500)
    write(store, 4_000)
    assert entries(store) == written(4_000)
    store.close()


def test_closed_while_loading_nothing_is_lost(folder: DataDirectory) -> None:
    store = new_store(folder)
    store.begin_bulk_load(until=FAR)
    write(store, 3_500)
    store.end_bulk_load()
    assert lists(store), "nobody has read"
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        store.get(key(4))
    store, anew = folder.open("orders", 0)
    assert anew is None
    assert (store.position, dict(store.scan(b"\x01", b"\x02"))) == (3_500, written(3_500))
    store.close()


def test_a_reader_meanwhile_is_told_and_reads_on(folder: DataDirectory) -> None:
    """Values that are right, or "closed" while it is opened again; never damage, which is mended
    by a rebuild."""
    store = new_store(folder)
    write(store, BATCH)
    found, ends, stop = [0], [], threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                found[0] += store.get(b"\x01never deleted") == b"1"
            except StoreClosedError:
                time.sleep(0)
            except BaseException as e:
                ends.append(e)

    batch = store.new_batch()
    batch.put(b"\x01never deleted", b"1")
    store.write(batch, BATCH)
    reader = threading.Thread(target=read)
    reader.start()
    for round_ in range(8):
        store.begin_bulk_load(until=FAR)
        write(store, BATCH * (round_ * 2 + 3))
        store.end_bulk_load()
    before, deadline = found[0], time.monotonic() + 10
    while found[0] == before and time.monotonic() < deadline:
        time.sleep(0.001)
    stop.set()
    reader.join(10)
    assert ends == []
    assert found[0] > before
    store.close()


def test_a_read_that_was_cut_off_is_no_damage(folder: DataDirectory) -> None:
    """It fails for what was closed, and looks why when all is open again."""
    store = new_store(folder)
    write(store, BATCH)
    scan = store.scan(b"\x01", b"\x02")
    next(scan)
    store._db.close()
    with pytest.raises(StoreClosedError):
        store.get(key(4))
    with pytest.raises(StoreClosedError):
        list(scan)


def test_a_scan_under_way_does_no_harm(folder: DataDirectory) -> None:
    """The database is open as long as somebody iterates: ingest opens the partition later."""
    store = new_store(folder)
    store.begin_bulk_load(until=FAR)
    write(store, 3_500)
    scan = store.scan(b"\x01", b"\x02")
    first = next(scan)
    with pytest.raises(StoreError) as raised:
        store.end_bulk_load()
    assert not raised.value.damaged
    assert first[0] in written(3_500)
    with pytest.raises(StoreClosedError):
        list(scan)
    store.close()
    again, anew = folder.open("orders", 0)
    assert anew is None
    assert (again.position, dict(again.scan(b"\x01", b"\x02"))) == (3_500, written(3_500))
    again.close()


@pytest.mark.parametrize(
    ("of", "end", "loads"),
    [
        (view("orders"), 100_000, True),
        (view("orders"), 5_000, False),
        # there ingest reads what has expired
        (view("orders", retention=1000), 100_000, False),
        (view("orders", persistence="memory"), 100_000, False),
    ],
    ids=["far behind", "near", "retention", "memory"],
)
def test_one_that_is_far_behind_is_loaded(
    folder: DataDirectory, of: View, end: int, loads: bool
) -> None:
    topic_metadata = TopicMetadata("topic-1", 1, {0: 0}, {0: end}, None, 0.0)
    held, _ = open_partition(folder, of, 0, topic_metadata, 10_000)
    store = held.store
    assert isinstance(store, RocksDBStore)
    in_memory = of.persistence == "memory"
    assert (not in_memory and lists(store)) is loads
    write(store, end)
    assert in_memory or not lists(store)
    assert entries(store) == written(end)
    store.close()


def test_ingest_settles_what_is_read_also_while_nothing_comes(folder: DataDirectory) -> None:
    of = view()
    topic_metadata, all_held = (
        TopicMetadata("topic-1", 1, {0: 0}, {0: FAR}, None, 0.0),
        PartitionRegistry((of,)),
    )
    held, _ = open_partition(folder, of, 0, topic_metadata, 10_000)
    all_held.add(held)
    store = held.store
    assert isinstance(store, RocksDBStore)
    write(store, 1_000)
    ingest = ingest_without_broker(of, folder, all_held)
    ingest.applier.expire()
    assert lists(store)
    store.get(key(4))
    ingest.applier.expire()
    assert not lists(store)
    store.close()


def test_one_that_answers_already_is_not_loaded(folder: DataDirectory) -> None:
    store = new_store(folder)
    write(store, 90_000)
    store.close()
    topic_metadata = TopicMetadata("topic-1", 1, {0: 0}, {0: 110_000}, None, 0.0)
    held, reason = open_partition(
        folder, view("orders"), 0, topic_metadata, acceptable_recovery_lag=20_000
    )
    assert (reason, held.progress.answerable) == (None, True)
    assert isinstance(held.store, RocksDBStore)
    assert not lists(held.store)
    held.store.close()
