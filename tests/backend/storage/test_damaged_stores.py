"""Damaged store partitions: moved aside and rebuilt; never answered from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from backend.storage.data_directory import DataDirectory
from model.problems import StoreError
from model.records import METADATA_KEY, POSITION_KEY
from tests.backend.storage.stores import filled, flip, one, opened, value_of
from tests.support.in_process.examples import metadata

DAMAGE: dict[str, Callable[[Path], object]] = {
    "CURRENT is garbage": lambda path: (path / "CURRENT").write_text("garbage\n"),
    "CURRENT is empty": lambda path: (path / "CURRENT").write_text(""),
    "MANIFEST is flipped": lambda path: flip(one(path, "MANIFEST-*"), 10),
    "MANIFEST is gone": lambda path: one(path, "MANIFEST-*").unlink(),
    "MANIFEST is empty": lambda path: one(path, "MANIFEST-*").write_bytes(b""),
    "an SST is gone": lambda path: one(path, "*.sst").unlink(),
    "an SST is cut": lambda path: one(path, "*.sst").write_bytes(b"short"),
    "an SST's foot is flipped": lambda path: flip(
        one(path, "*.sst"), one(path, "*.sst").stat().st_size - 8
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_one_is_kept_aside_and_begun_anew(
    folder: DataDirectory, damage: Callable[[Path], object]
) -> None:
    filled(folder).close()
    path = folder.path("orders", 0)
    damage(path)
    store, anew = folder.open("orders", 0)
    assert anew is not None
    assert "cannot open it" in anew
    [aside] = path.parent.glob("0.aside-*")
    assert aside.name in anew
    assert one(aside, "LOG*"), "what there was is there to be looked into"
    assert (store.position, store.get(b"\x011")) == (None, None)
    # and it works
    store.initialise(0, metadata())
    store.close()
    store = opened(folder)
    assert store.position == 0
    store.close()
    assert folder.on_disk() == {"orders": [0]}


def test_without_its_name_file_it_is_empty(folder: DataDirectory) -> None:
    """RocksDB begins anew by itself where there is no CURRENT: nothing old may shine through."""
    filled(folder).close()
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
def test_notes_that_cannot_be_read_are_damage(
    folder: DataDirectory, key: bytes, value: bytes
) -> None:
    store = filled(folder)
    batch = store.new_batch()
    batch.put(key, value)
    store._db.write(batch)
    store.close()
    store, anew = folder.open("orders", 0)
    assert anew is not None
    assert (store.position, store.metadata) == (None, None)
    store.close()


def test_of_those_kept_aside_the_last_is_kept(folder: DataDirectory) -> None:
    for round_ in range(3):
        store, anew = folder.open("orders", 0)
        assert (anew is not None) == (round_ > 0)
        store.close()
        (folder.path("orders", 0) / "CURRENT").write_text("garbage\n")
        (folder.path("orders", 0) / f"round-{round_}").touch()
    store, _ = folder.open("orders", 0)
    store.close()
    [aside] = folder.root.glob("orders/0.aside-*")
    assert (aside / "round-2").exists()


def test_one_that_is_open_already_is_not_taken_for_damaged(folder: DataDirectory) -> None:
    store = filled(folder)
    with pytest.raises(Exception, match=r"[Ll]ock"):
        folder.open("orders", 0)
    assert store.get(b"\x011") is not None
    assert not list(folder.root.glob("orders/*.aside-*"))
    store.close()


def test_flipped_bytes_are_told_and_never_answered(folder: DataDirectory) -> None:
    filled(folder).close()
    table = one(folder.path("orders", 0), "*.sst")
    for at in range(table.stat().st_size // 3, table.stat().st_size // 2, 3000):
        flip(table, at)
    store = opened(folder)
    said: set[str] = set()
    for i in range(3000):
        try:
            assert store.get(b"\x01%d" % i) == value_of(i)
        except StoreError as e:
            said.add(str(e))
    assert said
    assert all(str(store.path) in what and "checksum" in what for what in said)
    store.close()


@pytest.mark.parametrize("where", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_scan_over_damage_fails_and_never_ends_early(
    folder: DataDirectory, where: float, backwards: bool
) -> None:
    store = filled(folder)
    store.close()
    store = opened(folder)
    file = one(store.path, "*.sst")
    flip(file, int(file.stat().st_size * where), 64)
    with pytest.raises(StoreError, match="Corruption") as raised:
        list(store.scan(b"\x01", b"\x02", backwards=backwards))
    assert raised.value.damaged
    store.close()
