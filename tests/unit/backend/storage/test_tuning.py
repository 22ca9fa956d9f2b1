"""The settings of RocksDB."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backend.instance.settings import Settings
from backend.storage.data_directory import DataDirectory
from backend.storage.options import SharedMemory, Tuning
from backend.storage.rocksdb_store import open_db


def test_the_defaults_of_the_settings_are_those_of_the_tuning() -> None:
    assert Tuning.from_settings(Settings()) == Tuning()


def test_memtables_take_up_to_half_of_the_cache() -> None:
    tuning = Tuning.from_settings(Settings(block_cache_mb=64))
    assert (tuning.cache, tuning.write_buffers) == (64 << 20, 32 << 20)


@pytest.mark.parametrize(("cache_mb", "memtable"), [(16, 16 / 12), (192, 16), (1024, 32)])
def test_a_memtable_has_a_share_of_the_cache(cache_mb: int, memtable: float) -> None:
    assert Tuning.from_settings(Settings(block_cache_mb=cache_mb)).write_buffer == int(
        memtable * (1 << 20)
    )


def test_an_instance_opens_its_stores_with_its_settings(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, block_cache_mb=24)
    directory = DataDirectory.from_settings(settings)
    store, _ = directory.open("orders", 0)
    try:
        text = next((tmp_path / "orders" / "0").glob("OPTIONS-*")).read_text()
        assert "write_buffer_size=2097152" in text
        assert "max_background_jobs=2" in text
    finally:
        store.close()
        directory.close()


@pytest.mark.parametrize(("memtable", "expected"), [(8 << 20, 2 << 20), (1 << 20, 1 << 20)])
def test_bulk_loads_have_small_memtables(tmp_path: Path, memtable: int, expected: int) -> None:
    """RocksDB sorts their vectors when it flushes them, and small ones faster."""
    tuning = Tuning(write_buffer=memtable)
    open_db(tmp_path, SharedMemory(tuning).store_options.bulk_load).close()
    text = next(tmp_path.glob("OPTIONS-*")).read_text()
    assert f"write_buffer_size={expected}\n" in text
    assert "max_write_buffer_number=4\n" in text


def test_files_of_a_bulk_load_do_not_delay_writes(tmp_path: Path) -> None:
    """Of a store that is opened again before they are compacted, too."""
    for number, options in enumerate(SharedMemory().store_options):
        folder = tmp_path / str(number)
        open_db(folder, options).close()
        text = next(folder.glob("OPTIONS-*")).read_text()
        [slowdown] = re.findall(r"level0_slowdown_writes_trigger=(\d+)\n", text)
        [stop] = re.findall(r"level0_stop_writes_trigger=(\d+)\n", text)
        assert Tuning().bulk_load_files < int(slowdown) < int(stop)


def test_statistics_are_those_of_all_stores_together(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    stores = [directory.open("orders", partition)[0] for partition in range(2)]
    for store in stores:
        store.get(b"missing")
    tickers, cache_bytes = directory.rocksdb()
    # opening a store reads its position, stream time, metadata and last record
    assert tickers["number.keys.read"] == 2 * 5
    assert cache_bytes > 0
    for store in stores:
        store.close()
    directory.close()


def test_stores_that_are_bulk_loaded_together_flush_together() -> None:
    assert Tuning().flush_threads == 2
    assert Tuning(background_jobs=16).flush_threads == 4
    SharedMemory()
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    assert names.count("rocksdb:high\n") == 2
