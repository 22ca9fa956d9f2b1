"""Tests of the ownership of data folders: other programs' files are not used or changed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.lifecycle.orphan_cleanup import OrphanCleanup
from backend.storage.data_directory import DataDirectory
from backend.storage.ownership import MARK
from model.problems import ConfigurationError
from tests.support.file_tree import tree
from tests.unit.backend.storage.data_directories import (
    LEFTOVERS,
    add_foreign_files,
    copy_files,
    remove_marks,
    write_store,
)

# Folders of other programs and applications


@pytest.mark.parametrize("lock", [False, True], ids=["without lock file", "with lock file"])
def test_a_folder_of_other_programs_is_refused_and_untouched(tmp_path: Path, lock: bool) -> None:
    add_foreign_files(tmp_path)
    tmp_path.chmod(0o755)
    if lock:
        (tmp_path / "~lock").touch()
    before = tree(tmp_path)
    with pytest.raises(ConfigurationError) as error:
        DataDirectory(tmp_path)
    assert tree(tmp_path) == before
    message = str(error.value)
    assert str(tmp_path) in message
    assert "not empty" in message
    assert "QUERYABLE_DATA_DIR" in message


def _not_a_database(root: Path) -> None:
    (root / "orders" / "0" / "notes.txt").write_text("mine")
    (root / "orders" / "0" / "CURRENT").unlink()


FOREIGN_FILES: dict[str, Callable[[Path], object]] = {
    "a file next to the views": lambda root: (root / "notes.txt").write_text("mine"),
    "a file next to the partitions": lambda root: (root / "orders" / "notes").write_text("mine"),
    "a folder of digits": lambda root: (root / "photos" / "2013" / "a").mkdir(parents=True),
    "a partition that is no database": _not_a_database,
    "a link to elsewhere": lambda root: (root / "more").symlink_to("/etc"),
    "a partition that is a link": lambda root: (root / "orders" / "7").symlink_to("/etc"),
    "no lock": lambda root: (root / "~lock").unlink(),
}


@pytest.mark.parametrize("add_foreign_file", FOREIGN_FILES.values(), ids=FOREIGN_FILES)
def test_an_unmarked_data_folder_with_foreign_files_is_not_recognised(
    tmp_path: Path, add_foreign_file: Callable[[Path], object]
) -> None:
    data = DataDirectory(tmp_path)
    write_store(data)
    data.close()
    remove_marks(tmp_path)
    add_foreign_file(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(ConfigurationError, match="is not a store"):
        DataDirectory(tmp_path)
    assert tree(tmp_path) == before


def test_a_foreign_database_is_not_recognised(tmp_path: Path) -> None:
    """It was made with the same library, but has no position and metadata."""
    data = DataDirectory(tmp_path)
    data.open("orders", 0)[0].close()
    data.close()
    remove_marks(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(ConfigurationError, match="orders/0 is not a store"):
        DataDirectory(tmp_path)
    assert tree(tmp_path) == before


def test_a_folder_of_another_application_is_refused_and_untouched(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, application="theirs")
    write_store(data)
    data.close()
    before = tree(tmp_path)
    with pytest.raises(ConfigurationError, match="belongs to application 'theirs'") as error:
        DataDirectory(tmp_path, application="ours")
    assert tree(tmp_path) == before
    assert "QUERYABLE_APPLICATION_ID" in str(error.value)
    DataDirectory(tmp_path, application="theirs").close()


INVALID_MARKS = [
    *(b"", b"not json", b"[]", b'{"format": 1}'),
    b'{"application": "queryable-topics", "format": 9}',
]


@pytest.mark.parametrize("mark", INVALID_MARKS)
def test_a_folder_with_an_invalid_mark_is_not_used(tmp_path: Path, mark: bytes) -> None:
    data = DataDirectory(tmp_path)
    write_store(data)
    data.close()
    (tmp_path / "orders" / "0" / MARK).write_bytes(mark)
    data = DataDirectory(tmp_path)
    assert data.on_disk() == {}
    data.delete("orders", 0)
    assert (tmp_path / "orders" / "0").exists()
    data.close()
    (tmp_path / MARK).write_bytes(mark)
    with pytest.raises(ConfigurationError, match="has an invalid file"):
        DataDirectory(tmp_path)


# Folders inside a marked data folder


def test_only_marked_folders_are_deleted(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    write_store(data)
    write_store(data, partition=1)
    add_foreign_files(tmp_path)
    for name in LEFTOVERS:
        (tmp_path / "orders" / name).mkdir()
        (tmp_path / "orders" / name / "theirs").touch()
    view, before = tmp_path / "orders", {str(p) for p in tmp_path.rglob("*")}
    marked = {str(p) for n in "01" for p in [view / n, *(view / n).rglob("*")]}
    data.close()
    data = DataDirectory(tmp_path)  # deletes the leftovers of crashes
    assert {name: sorted(found) for name, found in data.on_disk().items()} == {"orders": [0, 1]}
    OrphanCleanup(data, delay=0.0).clean_up(set(), set(), 1.0)
    for name, partition in (("postgresql", 15), ("photos", 2013), ("orders", 0)):
        data.delete(name, partition)
        data.set_aside(name, partition)
    assert {str(p) for p in tmp_path.rglob("*")} == before - marked
    data.close()


def test_marked_leftovers_are_deleted_at_the_start(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    for partition, name in enumerate(LEFTOVERS):
        write_store(data, partition=partition)
        data.path("orders", partition).rename(tmp_path / "orders" / name)
    data.new_snapshot("orders", 5)
    data.close()
    DataDirectory(tmp_path).close()
    assert [path.name for path in (tmp_path / "orders").iterdir()] == ["0.aside-1"]


def test_links_are_never_followed(tmp_path: Path) -> None:
    elsewhere = DataDirectory(tmp_path / "elsewhere")
    write_store(elsewhere)
    elsewhere.close()
    before = tree(tmp_path / "elsewhere")
    data = DataDirectory(tmp_path / "data")
    (data.root / "orders").symlink_to(tmp_path / "elsewhere" / "orders")
    (data.root / "other").mkdir()
    for name in ("0", "0.deleted-1", "0.aside-1"):
        (data.root / "other" / name).symlink_to(tmp_path / "elsewhere" / "orders" / "0")
    data.close()
    data = DataDirectory(tmp_path / "data")
    assert data.on_disk() == {}
    for view in ("orders", "other"):
        data.delete(view, 0)
        data.set_aside(view, 0)
        for memory in (False, True):
            with pytest.raises(ConfigurationError, match="symbolic link"):
                data.open(view, 0, memory)
    data.close()
    assert tree(tmp_path / "elsewhere") == before


def test_the_data_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    data = DataDirectory(tmp_path / "data")
    write_store(data)
    assert data.on_disk() == {"orders": [0]}
    data.close()


def test_a_foreign_folder_in_the_place_of_a_store_is_not_opened_or_moved(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    foreign = tmp_path / "orders" / "0" / "base"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("precious")
    for memory in (False, True):
        with pytest.raises(ConfigurationError, match="is not a store of application"):
            data.open("orders", 0, memory)
    assert foreign.read_text() == "precious"
    assert [path.name for path in (tmp_path / "orders").iterdir()] == ["0"]
    data.close()


def test_unreadable_folders_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as lost+found, which only root can read."""
    data = DataDirectory(tmp_path)
    write_store(data)
    closed = tmp_path / "lost+found"
    closed.mkdir()
    iterdir = Path.iterdir

    def failing_iterdir(path: Path) -> Any:
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", failing_iterdir)
    assert data.on_disk() == {"orders": [0]}
    data.close()
    again = DataDirectory(tmp_path)
    assert again.on_disk() == {"orders": [0]}
    again.close()


# New folders


@pytest.mark.parametrize("existing", ["nothing", "an empty folder", "a new file system"])
def test_a_new_folder_is_marked_and_private(tmp_path: Path, existing: str) -> None:
    root = tmp_path / "data"
    if existing != "nothing":
        root.mkdir(0o755)
    if existing == "a new file system":
        (root / "lost+found").mkdir()
    umask = os.umask(0)
    try:
        data = DataDirectory(root, application="ours")
        write_store(data)
        store, _ = data.open("orders", 0)
        files = store.checkpoint()
        assert files is not None
        folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
        modes = {path.relative_to(root): stat.S_IMODE(path.stat().st_mode) for path in folders}
        store.drop_checkpoint(files)
        store.close()
    finally:
        os.umask(umask)
    assert json.loads((root / MARK).read_text()) == {"application": "ours", "format": 1}
    for path in ("lost+found", files.relative_to(root)):  # the latter is in a private folder
        modes.pop(Path(path), None)
    assert {Path("."), Path("orders"), Path("orders/0")} < modes.keys()
    assert set(modes.values()) == {0o700}, modes
    data.close()


def test_a_folder_without_a_mark_can_be_used_if_it_is_empty(tmp_path: Path) -> None:
    """A crash may leave it between its creation and its marking."""
    data = DataDirectory(tmp_path)
    (tmp_path / "orders" / "0").mkdir(parents=True)
    (tmp_path / "orders" / "1").mkdir()
    (tmp_path / "orders" / "1" / f"{MARK}.new").write_bytes(b"{")
    for partition in (0, 1):
        write_store(data, partition=partition)
    assert sorted(data.on_disk()["orders"]) == [0, 1]
    data.close()


def test_an_interrupted_deletion_continues_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataDirectory(tmp_path)
    write_store(data)
    unlink, calls_left = os.unlink, 2

    def failing_unlink(path: Any, **more: Any) -> None:
        nonlocal calls_left
        if not (calls_left := calls_left - 1):
            raise OSError(5, "Input/output error")
        unlink(path, **more)

    monkeypatch.setattr(os, "unlink", failing_unlink)
    data.delete("orders", 0)
    monkeypatch.undo()
    [incomplete] = (tmp_path / "orders").iterdir()
    assert len(list(incomplete.iterdir())) > 1
    data.close()
    DataDirectory(tmp_path).close()
    assert list((tmp_path / "orders").iterdir()) == []


@pytest.mark.slow
def test_a_checkpoint_of_a_killed_process_is_deleted(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from backend.storage.data_directory import DataDirectory\n"
        "store, _ = DataDirectory(pathlib.Path(sys.argv[1])).open('orders', 0)\n"
        "print(store.checkpoint(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    files = Path(ended.stdout.strip())
    assert (files / "CURRENT").exists()
    DataDirectory(tmp_path).close()
    assert [path.name for path in (tmp_path / "orders").iterdir()] == ["0"]


def test_a_snapshot_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = DataDirectory(tmp_path / "source")
    write_store(source)
    data = DataDirectory(tmp_path / "data")
    snapshot = data.new_snapshot("orders", 0)
    copy_files(source.path("orders", 0), snapshot)
    calls: list[tuple[str, str]] = []
    fsync, rename = os.fsync, Path.rename

    def recording_fsync(fd: int) -> None:
        calls.append(("fsync", os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def recording_rename(path: Path, target: Path) -> Path:
        calls.append(("rename", str(path)))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(Path, "rename", recording_rename)
    data.install(snapshot, "orders", 0)
    monkeypatch.undo()
    renamed_at = calls.index(("rename", str(snapshot)))
    files = {str(snapshot / file.name) for file in data.path("orders", 0).iterdir()}
    synced = {name for call, name in calls[:renamed_at] if call == "fsync"}
    assert files <= synced, "first the files"
    assert calls[renamed_at - 1] == ("fsync", str(snapshot)), "then their folder"
    assert calls[renamed_at + 1] == ("fsync", str(snapshot.parent)), "then the parent folder"
    assert data.on_disk() == {"orders": [0]}
    data.close()
    source.close()
