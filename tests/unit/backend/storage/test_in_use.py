from __future__ import annotations

import os
import shutil
from pathlib import Path

import orjson
import pytest

from backend.storage.data_directory import DataDirectory
from backend.storage.in_use import IN_USE, begin, end, is_copy
from backend.storage.ownership import LOCK


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / LOCK).touch()
    return folder


def copy(root: Path) -> Path:
    """As `cp -a` does."""
    return Path(shutil.copytree(root, root.with_name("copy"), copy_function=shutil.copy2))


def test_a_folder_that_no_instance_uses_is_no_suspicious_copy(root: Path) -> None:
    assert not is_copy(root)
    begin(root)
    end(root)
    assert not is_copy(root)
    assert not is_copy(copy(root))


def test_after_a_crash_the_folder_is_the_same(root: Path) -> None:
    begin(root)
    assert not is_copy(root)
    moved = root.rename(root.with_name("moved"))
    (moved / LOCK).chmod(0o600)  # access rights may be restored, for example by Kubernetes
    os.utime(moved / LOCK)
    assert not is_copy(moved)


def test_a_copy_of_a_folder_in_use_is_recognised(root: Path) -> None:
    begin(root)
    assert is_copy(copy(root))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}"])
def test_what_an_instance_does_not_write_is_of_a_copy(root: Path, content: bytes) -> None:
    (root / IN_USE).write_bytes(content)
    assert is_copy(root)


def test_another_file_with_the_same_inode_has_another_time_of_birth(root: Path) -> None:
    """Inodes are reused: in a restored file system, many are the same as before."""
    begin(root)
    content = orjson.loads((root / IN_USE).read_bytes())
    inode, born = content["lock"]
    assert (inode, is_copy(root)) == ((root / LOCK).stat().st_ino, False)
    (root / IN_USE).write_bytes(orjson.dumps({**content, "lock": [inode, born + 1]}))
    assert is_copy(root)


def position(data: DataDirectory) -> int | None:
    """Of the store of orders/0, which is then closed."""
    store, reason = data.open("orders", 0)
    try:
        assert reason is None
        return store.position
    finally:
        store.close()


@pytest.mark.parametrize("is_closed", [True, False])
def test_the_stores_of_a_copy_are_used_only_if_they_were_closed(
    tmp_path: Path, is_closed: bool
) -> None:
    data = DataDirectory(tmp_path / "data")
    store, _ = data.open("orders", 0)
    store.write(store.new_batch(), 7)
    store.close()
    data.set_aside("orders", 0)
    store, _ = data.open("orders", 0)
    store.write(store.new_batch(), 8)
    store.close()
    data.close(stores_are_closed=is_closed)
    copied = DataDirectory(copy(tmp_path / "data"))
    assert position(copied) == (8 if is_closed else None)
    asides = [path.name for path in (copied.root / "orders").iterdir() if "aside" in path.name]
    assert len(asides) == is_closed
    copied.close()
    again = DataDirectory(tmp_path / "data")  # the original, as after a crash
    assert position(again) == 8
    again.close()


def test_a_system_whose_stat_has_the_time_of_creation(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS and the BSDs: a copy has another time."""
    status = os.lstat(root / LOCK)

    class Status:
        st_ino = status.st_ino
        st_birthtime = 1_700_000_000.5

    monkeypatch.setattr(Path, "lstat", lambda _: Status())
    begin(root)
    assert not is_copy(root)
    Status.st_birthtime += 1
    assert is_copy(root)
