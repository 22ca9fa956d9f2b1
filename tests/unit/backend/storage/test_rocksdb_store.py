"""Tests of RocksDB stores, with real files and killed processes."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksdict import WriteBatch

from backend.storage.data_directory import DataDirectory
from backend.storage.options import Tuning
from model.problems import ConfigurationError, StoreClosedError, StoreError
from tests.support.in_process.examples import metadata
from tests.unit.backend.storage.store_writer import KEYS, TUNING, batch_end, entries_at
from tests.unit.backend.storage.stores import filled_store, open_store, value_of

ROOT = Path(__file__).parents[4]


def test_a_new_store_is_empty(folder: DataDirectory) -> None:
    store = open_store(folder)
    assert (store.position, store.metadata, store.get(b"\x01a")) == (None, None, None)
    store.close()


def test_a_batch_and_its_position_are_written(folder: DataDirectory) -> None:
    store = open_store(folder)
    store.initialise(7, metadata())
    batch = store.new_batch()
    batch.put(b"\x01a", b"1")
    batch.put(b"\x01b", b"\0\xff")
    batch.put(b"\x01", b"")
    store.write(batch, 9)
    batch = store.new_batch()
    batch.delete(b"\x01a")
    batch.put(b"\x01c", b"2")
    batch.put(b"\x01c", b"3")
    store.write(batch, 12, metadata(dead_letters=4))
    for _ in range(2):
        assert (store.position, store.metadata) == (12, metadata(dead_letters=4))
        found = [store.get(b"\x01" + key) for key in (b"a", b"b", b"", b"c", b"d")]
        assert found == [None, b"\0\xff", b"", b"3", None]
        store.close()
        store = open_store(folder)
    store.close()


def test_entries_position_and_metadata_are_one_write(
    folder: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled_store(folder, 1)
    written: list[int] = []

    class Spy:
        def write(self, batch: WriteBatch) -> None:
            written.append(batch.len())

    monkeypatch.setattr(store, "_db", Spy())
    batch = store.new_batch()
    batch.put(b"\x01a", b"1")
    store.write(batch, 2, metadata())
    assert written == [3]
    monkeypatch.undo()
    store.close()


def test_a_write_that_fails_changes_nothing(folder: DataDirectory) -> None:
    store = filled_store(folder, 1)
    store.close()
    batch = store.new_batch()
    batch.put(b"\x01a", b"1")
    with pytest.raises(StoreError, match="writing"):
        store.write(batch, 99, metadata(dead_letters=9))
    assert (store.position, store.metadata) == (1, metadata())


def test_touch_changes_only_the_time(folder: DataDirectory) -> None:
    store = filled_store(folder, 5)
    store.touch(777, 555)
    store.close()
    store = open_store(folder)
    assert (store.position, store.metadata) == (5, metadata(alive_at=777, complete_at=555))
    store.close()


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 40])
def test_few_and_many_keys_are_found_alike(folder: DataDirectory, count: int) -> None:
    store = filled_store(folder)
    keys = [b"\x01%d" % (i if i % 3 else -1) for i in range(count)]
    found = store.get_many(keys)
    assert found == [store.get(key) for key in keys]
    assert [entry is None for entry in found] == [i % 3 == 0 for i in range(count)]
    store.close()
    with pytest.raises(StoreClosedError):
        store.get_many([b"\x011"])


def test_an_existing_store_is_opened_with_all_tuning_options(folder: DataDirectory) -> None:
    filled_store(folder).close()
    store = open_store(folder)
    cache = folder._memory.cache
    before = cache.get_usage()
    assert store.get(b"\x01999") is not None
    assert cache.get_usage() > before, "blocks are in the shared cache"
    batch = store.new_batch()
    for i in range(3000):
        batch.put(b"\x01another %d" % i, value_of(i))
    store.write(batch, 6000)
    store._db.flush()
    properties = str(store._db.property_value("rocksdb.aggregated-table-properties"))
    [filters] = re.findall(r"filter block size=(\d+)", properties)
    assert int(filters) > 2 * 3000 * TUNING.bloom_bits_per_key / 8 * 0.9, "new files have filters"
    store.close()


def test_reads_of_a_closed_store_fail(folder: DataDirectory) -> None:
    store = filled_store(folder, 3)
    assert store.get(b"\x011") is not None
    assert store.size() > 0
    assert store.entries() > 0
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        store.get(b"\x011")
    assert (store.size(), store.entries()) == (0, 0)


def test_concurrent_reads_of_a_store_that_is_being_closed_fail(folder: DataDirectory) -> None:
    store = filled_store(folder)
    errors: list[BaseException] = []
    reading = threading.Barrier(3)

    def read() -> None:
        reading.wait()
        try:
            while store.get(b"\x0142") is not None:
                store.size()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    reading.wait()
    store.close()
    for thread in threads:
        thread.join(10)
    assert [type(error) for error in errors] == [StoreClosedError] * 2


@pytest.mark.parametrize("load", [[], ["load"]], ids=["plain", "loading"])
@pytest.mark.slow
def test_a_writer_that_is_killed(tmp_path: Path, load: list[str]) -> None:
    """After each kill, entries and position match. No completed write is lost, except those of a
    bulk load that are not flushed yet."""
    root = tmp_path / "data"
    position, kills = 0, 4
    boundaries = {0}
    for kill in range(kills):
        command = [
            sys.executable,
            "-m",
            "tests.unit.backend.storage.store_writer",
            str(root),
            *load,
        ]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            reported = position
            for _ in range(15 + 17 * kill):
                reported = int(writer.stdout.readline())
            writer.kill()
            reported = max([reported, *map(int, writer.stdout.read().split())])
        folder = DataDirectory(root, TUNING)
        store, reason = folder.open("orders", 0)
        assert reason is None
        assert store.position is not None
        assert store.position <= batch_end(reported), "at most one more batch"
        assert store.position >= (position if load else reported)
        while max(boundaries) < store.position:
            boundaries.add(batch_end(max(boundaries)))
        assert store.position in boundaries, "batches are complete"
        position = store.position
        expected = entries_at(position)
        assert {key: store.get(key) for key in KEYS} == {key: expected.get(key) for key in KEYS}
        store.close()
        folder.close()
    # what a bulk load has flushed by then depends on the machine
    assert position > (0 if load else 500)


@pytest.mark.slow
def test_memtables_of_many_store_partitions_are_not_flushed_all_the_time(tmp_path: Path) -> None:
    """Regression: each memtable had at least 1 MiB, so with 300 partitions nearly each write
    flushed one with a few entries."""
    folder = DataDirectory(tmp_path / "data", Tuning(cache=16 << 20, write_buffers=8 << 20))
    stores = [folder.open("orders", number)[0] for number in range(40)]
    for round_ in range(20):
        for store in stores:
            batch = store.new_batch()
            batch.put(b"\x01key-%d" % round_, b"value" * 50)
            store.write(batch, round_ + 1)
    assert list((folder.root / "orders").glob("*/*.sst")) == []
    for store in stores:
        store.close()
    folder.close()


# The data folder


def test_delete(folder: DataDirectory) -> None:
    filled_store(folder).close()
    other, _ = folder.open("orders", 1)
    other.close()
    folder.delete("orders", 0)
    folder.delete("orders", 0)
    folder.delete("nothing", 0)
    assert folder.on_disk() == {"orders": [1]}
    assert sorted(path.name for path in (folder.root / "orders").iterdir()) == ["1"]
    store = open_store(folder)
    assert store.position is None
    store.close()


def test_a_deletion_that_a_crash_interrupted_is_completed(folder: DataDirectory) -> None:
    filled_store(folder).close()
    folder.path("orders", 0).rename(folder.root / "orders" / "0.deleted-123")
    folder.close()
    again = DataDirectory(folder.root)
    assert list((folder.root / "orders").iterdir()) == []
    assert again.on_disk() == {}
    folder._lock = again._lock


def test_stores_on_disk(folder: DataDirectory) -> None:
    for view, partition in (("orders", 0), ("orders", 11), ("lock", 2)):
        folder.open(view, partition)[0].close()
    folder.set_aside("orders", 0)
    on_disk = {view: sorted(partitions) for view, partitions in folder.on_disk().items()}
    assert on_disk == {"orders": [11], "lock": [2]}


@pytest.mark.slow
def test_a_data_folder_is_locked_for_one_process(folder: DataDirectory) -> None:
    script = (
        "import sys, pathlib\n"
        "from model.problems import ConfigurationError\n"
        "from backend.storage.data_directory import DataDirectory\n"
        "try: DataDirectory(pathlib.Path(sys.argv[1]))\n"
        "except ConfigurationError as e: sys.exit(str(e))\n"
    )
    command = [sys.executable, "-c", script, str(folder.root)]
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert "is in use by another instance" in refused.stderr
    assert "QUERYABLE_DATA_DIR" in refused.stderr
    with pytest.raises(ConfigurationError, match="in use"):
        DataDirectory(folder.root)


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(lambda tmp: tmp / "file", id="a file"),
        pytest.param(lambda tmp: tmp / "file" / "data", id="below a file"),
        pytest.param(lambda _: Path("/proc/queryable-topics"), id="a read-only file system"),
        pytest.param(lambda tmp: tmp / ("x" * 300), id="a name too long"),
    ],
)
def test_a_data_folder_that_is_not_writable(tmp_path: Path, place: Callable[[Path], Path]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError) as error:
        DataDirectory(place(tmp_path))
    assert str(error.value).startswith(f"cannot write to the data folder {place(tmp_path)}: ")
    assert "QUERYABLE_DATA_DIR" in str(error.value)
