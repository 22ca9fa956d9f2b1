"""Tests of damaged stores, which are set aside and rebuilt."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.storage import rocksdb_store
from backend.storage.data_directory import DataDirectory
from model.problems import StoreError
from model.records import METADATA_KEY, POSITION_KEY
from tests.support.in_process.examples import metadata
from tests.unit.backend.storage.stores import (
    filled_store,
    first_file,
    flip_bits,
    open_store,
    value_of,
)

DAMAGE: dict[str, Callable[[Path], object]] = {
    "CURRENT is garbage": lambda path: (path / "CURRENT").write_text("garbage\n"),
    "CURRENT is empty": lambda path: (path / "CURRENT").write_text(""),
    "MANIFEST is flipped": lambda path: flip_bits(first_file(path, "MANIFEST-*"), 10),
    "MANIFEST is missing": lambda path: first_file(path, "MANIFEST-*").unlink(),
    "MANIFEST is empty": lambda path: first_file(path, "MANIFEST-*").write_bytes(b""),
    "an SST is missing": lambda path: first_file(path, "*.sst").unlink(),
    "an SST is truncated": lambda path: first_file(path, "*.sst").write_bytes(b"short"),
    "an SST's foot is flipped": lambda path: flip_bits(
        first_file(path, "*.sst"), first_file(path, "*.sst").stat().st_size - 8
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_store_is_set_aside_and_replaced(
    folder: DataDirectory, damage: Callable[[Path], object]
) -> None:
    filled_store(folder).close()
    path = folder.path("orders", 0)
    damage(path)
    store, reason = folder.open("orders", 0)
    assert reason is not None
    assert "cannot open it" in reason
    [aside] = path.parent.glob("0.aside-*")
    assert aside.name in reason
    assert first_file(aside, "LOG*"), "the files are kept for inspection"
    assert (store.position, store.get(b"\x011")) == (None, None)
    # the new store works
    store.initialise(0, metadata())
    store.close()
    store = open_store(folder)
    assert store.position == 0
    store.close()
    assert folder.on_disk() == {"orders": [0]}


def test_a_store_without_current_is_empty(folder: DataDirectory) -> None:
    """Without CURRENT, RocksDB creates a new database: no old entry may be visible."""
    filled_store(folder).close()
    (folder.path("orders", 0) / "CURRENT").unlink()
    store, _ = folder.open("orders", 0)
    assert (store.position, store.metadata, store.get(b"\x011")) == (None, None, None)
    store.close()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (POSITION_KEY, b"short"),
        (POSITION_KEY, b""),
        (METADATA_KEY, b"not json"),
        (METADATA_KEY, b"[]"),
        (METADATA_KEY, b'{"of": "another version"}'),
    ],
)
def test_malformed_position_or_metadata_counts_as_damage(
    folder: DataDirectory, key: bytes, value: bytes
) -> None:
    store = filled_store(folder)
    batch = store.new_batch()
    batch.put(key, value)
    store._db.write(batch)
    store.close()
    store, reason = folder.open("orders", 0)
    assert reason is not None
    assert (store.position, store.metadata) == (None, None)
    store.close()


def test_only_the_latest_damaged_store_is_kept(folder: DataDirectory) -> None:
    for round_ in range(3):
        store, reason = folder.open("orders", 0)
        assert (reason is not None) == (round_ > 0)
        store.close()
        (folder.path("orders", 0) / "CURRENT").write_text("garbage\n")
        (folder.path("orders", 0) / f"round-{round_}").touch()
    store, _ = folder.open("orders", 0)
    store.close()
    [aside] = folder.root.glob("orders/0.aside-*")
    assert (aside / "round-2").exists()


def test_a_store_that_is_open_already_does_not_count_as_damaged(folder: DataDirectory) -> None:
    store = filled_store(folder)
    with pytest.raises(Exception, match=r"[Ll]ock"):
        folder.open("orders", 0)
    assert store.get(b"\x011") is not None
    assert not list(folder.root.glob("orders/*.aside-*"))
    store.close()


def test_reads_of_flipped_bytes_fail(folder: DataDirectory) -> None:
    filled_store(folder).close()
    table = first_file(folder.path("orders", 0), "*.sst")
    for at in range(table.stat().st_size // 3, table.stat().st_size // 2, 3000):
        flip_bits(table, at)
    store = open_store(folder)
    errors: set[str] = set()
    for i in range(3000):
        try:
            assert store.get(b"\x01%d" % i) == value_of(i)
        except StoreError as e:
            errors.add(str(e))
    assert errors
    assert all(str(store.path) in error and "checksum" in error for error in errors)
    store.close()


@pytest.mark.parametrize(
    ("text", "damaged"),
    [
        ("Corruption: block checksum mismatch in 000012.sst", True),
        (
            "IO error: No such file or directory: While open a file for random read: 000012.sst",
            True,
        ),
        ("IO error: While pread offset 4096 len 4111: 000012.sst: Input/output error", True),
        ("IO error: While open a file for random read: 000012.sst: Too many open files", False),
        ("Resource temporarily unavailable", False),
    ],
)
def test_not_every_error_of_a_read_is_damage(
    folder: DataDirectory, monkeypatch: pytest.MonkeyPatch, text: str, damaged: bool
) -> None:
    store = filled_store(folder, entries=1)

    def fail(key: bytes) -> bytes:
        raise Exception(text)  # as rocksdict does

    with monkeypatch.context() as patch:
        patch.setattr(store, "_get", fail)
        with pytest.raises(StoreError, match=re.escape(text)) as raised:
            store.get(b"\x010")
    assert raised.value.damaged is damaged
    assert store.get(b"\x010") == value_of(0)
    store.close()


@pytest.mark.parametrize("where", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("is_busy", [False, True], ids=["scan", "among-writes"])
def test_a_scan_of_damaged_blocks_fails_and_does_not_end_early(
    folder: DataDirectory,
    where: float,
    backwards: bool,
    is_busy: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = filled_store(folder)
    store.close()
    store = open_store(folder)
    file = first_file(store.path, "*.sst")
    flip_bits(file, int(file.stat().st_size * where), 64)
    if is_busy:
        monkeypatch.setattr(rocksdb_store, "_ATTEMPTS", 0)
        _, [entries] = store.at_one_moment([(b"\x01", b"\x02")], backwards)
    else:
        entries = store.scan(b"\x01", b"\x02", backwards=backwards)
    with pytest.raises(StoreError, match="Corruption") as raised:
        list(entries)
    assert raised.value.damaged
    store.close()
