"""Whose the data folder is: nothing in it is used, changed or deleted that is not ours."""

from __future__ import annotations

import json
import os
import shutil
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
from tests.backend.storage.data_directories import LEFTOVERS, filled, some_bodys, unmarked
from tests.support.file_tree import tree

# A folder of somebody else


@pytest.mark.parametrize("lock", [False, True], ids=["never tried", "tried by an older version"])
def test_a_folder_of_other_programs_is_refused_and_untouched(tmp_path: Path, lock: bool) -> None:
    some_bodys(tmp_path)
    tmp_path.chmod(0o755)
    if lock:
        (tmp_path / "~lock").touch()
    before = tree(tmp_path)
    with pytest.raises(ConfigurationError) as error:
        DataDirectory(tmp_path)
    assert tree(tmp_path) == before
    said = str(error.value)
    assert str(tmp_path) in said
    assert "not empty" in said
    assert "QUERYABLE_DATA_DIR" in said


def _with_a_file(root: Path) -> None:
    (root / "orders" / "0" / "notes.txt").write_text("mine")
    (root / "orders" / "0" / "CURRENT").unlink()


STRANGERS: dict[str, Callable[[Path], object]] = {
    "a file beside the views": lambda root: (root / "notes.txt").write_text("mine"),
    "a file beside the partitions": lambda root: (root / "orders" / "notes").write_text("mine"),
    "a folder of digits": lambda root: (root / "photos" / "2013" / "a").mkdir(parents=True),
    "a partition that is no database": _with_a_file,
    "a link to elsewhere": lambda root: (root / "more").symlink_to("/etc"),
    "a partition that is a link": lambda root: (root / "orders" / "7").symlink_to("/etc"),
    "no lock": lambda root: (root / "~lock").unlink(),
}


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_one_of_ours_with_something_else_in_it_is_not_recognised(
    tmp_path: Path, stranger: Callable[[Path], object]
) -> None:
    data = DataDirectory(tmp_path)
    filled(data)
    data.close()
    unmarked(tmp_path)
    stranger(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(ConfigurationError, match="is not a store"):
        DataDirectory(tmp_path)
    assert tree(tmp_path) == before


def test_a_database_of_somebody_else_is_not_recognised(tmp_path: Path) -> None:
    """Made with the same library, with none of our notes in it."""
    data = DataDirectory(tmp_path)
    data.open("orders", 0)[0].close()
    data.close()
    unmarked(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(ConfigurationError, match="orders/0 is not a store"):
        DataDirectory(tmp_path)
    assert tree(tmp_path) == before


def test_a_folder_of_another_application_is_refused_and_untouched(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, application="theirs")
    filled(data)
    data.close()
    before = tree(tmp_path)
    with pytest.raises(ConfigurationError, match="belongs to application 'theirs'") as error:
        DataDirectory(tmp_path, application="ours")
    assert tree(tmp_path) == before
    assert "QUERYABLE_APPLICATION_ID" in str(error.value)
    DataDirectory(tmp_path, application="theirs").close()


NO_MARKS = [
    *(b"", b"not json", b"[]", b'{"format": 1}'),
    b'{"application": "queryable-topics", "format": 9}',
]


@pytest.mark.parametrize("mark", NO_MARKS)
def test_a_mark_that_is_not_understood_is_no_mark(tmp_path: Path, mark: bytes) -> None:
    data = DataDirectory(tmp_path)
    filled(data)
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


# Within a folder of ours


def test_only_what_carries_the_mark_is_ever_deleted(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    filled(data)
    filled(data, partition=1)
    some_bodys(tmp_path)
    for name in LEFTOVERS:
        (tmp_path / "orders" / name).mkdir()
        (tmp_path / "orders" / name / "theirs").touch()
    ours, theirs = tmp_path / "orders", {str(p) for p in tmp_path.rglob("*")}
    ours_of_before = {str(p) for n in "01" for p in [ours / n, *(ours / n).rglob("*")]}
    data.close()
    data = DataDirectory(tmp_path)  # deletes what a crash has left
    assert {view: sorted(found) for view, found in data.on_disk().items()} == {"orders": [0, 1]}
    leftovers = OrphanCleanup(data, delay=0.0)
    leftovers.clean_up(set(), 1.0)
    for view, partition in (("postgresql", 15), ("photos", 2013), ("orders", 0)):
        data.delete(view, partition)
        data.set_aside(view, partition)
    assert {str(p) for p in tmp_path.rglob("*")} == theirs - ours_of_before
    data.close()


def test_leftovers_of_ours_are_deleted_at_the_start(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    for partition, name in enumerate(LEFTOVERS):
        filled(data, partition=partition)
        data.path("orders", partition).rename(tmp_path / "orders" / name)
    data.new_snapshot("orders", 5)
    data.close()
    DataDirectory(tmp_path).close()
    assert [path.name for path in (tmp_path / "orders").iterdir()] == ["0.aside-1"]


def test_links_are_never_followed(tmp_path: Path) -> None:
    elsewhere = DataDirectory(tmp_path / "elsewhere")
    filled(elsewhere)
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


def test_a_link_to_the_folder_itself_is_the_operators_choice(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    data = DataDirectory(tmp_path / "data")
    filled(data)
    assert data.on_disk() == {"orders": [0]}
    data.close()


def test_a_partition_that_is_somebody_elses_is_neither_opened_nor_moved(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    theirs = tmp_path / "orders" / "0" / "base"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")
    for memory in (False, True):
        with pytest.raises(ConfigurationError, match="is not a store of application"):
            data.open("orders", 0, memory)
    assert theirs.read_text() == "precious"
    assert [path.name for path in (tmp_path / "orders").iterdir()] == ["0"]
    data.close()


def test_folders_that_cannot_be_read_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root alone can read lost+found."""
    data = DataDirectory(tmp_path)
    filled(data)
    closed = tmp_path / "lost+found"
    closed.mkdir()
    iterdir = Path.iterdir

    def look(path: Path) -> Any:
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", look)
    assert data.on_disk() == {"orders": [0]}
    data.close()
    again = DataDirectory(tmp_path)
    assert again.on_disk() == {"orders": [0]}
    again.close()


# From before there were marks


# Made by us


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "a new file system"])
def test_a_new_folder_is_marked_and_private(tmp_path: Path, there: str) -> None:
    root = tmp_path / "data"
    if there != "nothing":
        root.mkdir(0o755)
    if there == "a new file system":
        (root / "lost+found").mkdir()
    umask = os.umask(0)
    try:
        data = DataDirectory(root, application="ours")
        filled(data)
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
    for path in ("lost+found", files.relative_to(root)):  # the latter is in one of mode 0700
        modes.pop(Path(path), None)
    assert {Path("."), Path("orders"), Path("orders/0")} < modes.keys()
    assert set(modes.values()) == {0o700}, modes
    data.close()


def test_a_folder_that_was_made_and_not_yet_marked_can_be_used(tmp_path: Path) -> None:
    """Where a crash was between the two."""
    data = DataDirectory(tmp_path)
    (tmp_path / "orders" / "0").mkdir(parents=True)
    (tmp_path / "orders" / "1").mkdir()
    (tmp_path / "orders" / "1" / f"{MARK}.new").write_bytes(b"{")
    for partition in (0, 1):
        filled(data, partition=partition)
    assert sorted(data.on_disk()["orders"]) == [0, 1]
    data.close()


def test_a_deletion_that_was_cut_off_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataDirectory(tmp_path)
    filled(data)
    unlink, left = os.unlink, 2

    def fails(path: Any, **more: Any) -> None:
        nonlocal left
        if not (left := left - 1):
            raise OSError(5, "Input/output error")
        unlink(path, **more)

    monkeypatch.setattr(os, "unlink", fails)
    data.delete("orders", 0)
    monkeypatch.undo()
    [half] = (tmp_path / "orders").iterdir()
    assert len(list(half.iterdir())) > 1
    data.close()
    DataDirectory(tmp_path).close()
    assert list((tmp_path / "orders").iterdir()) == []


def test_a_checkpoint_that_a_kill_leaves_is_deleted(tmp_path: Path) -> None:
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


def test_a_copy_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver = DataDirectory(tmp_path / "giver")
    filled(giver)
    data = DataDirectory(tmp_path / "data")
    copy = data.new_snapshot("orders", 0)
    for file in giver.path("orders", 0).iterdir():
        if file.name != MARK:
            shutil.copy(file, copy)
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, Path.rename

    def note_fsync(fd: int) -> None:
        done.append(("fsync", os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def note_rename(path: Path, target: Path) -> Path:
        done.append(("rename", str(path)))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "rename", note_rename)
    data.install(copy, "orders", 0)
    monkeypatch.undo()
    at = done.index(("rename", str(copy)))
    files = {str(copy / file.name) for file in data.path("orders", 0).iterdir()}
    synced = {name for what, name in done[:at] if what == "fsync"}
    assert files <= synced, "each file that it has"
    assert done[at - 1] == ("fsync", str(copy)), "then their names"
    assert done[at + 1] == ("fsync", str(copy.parent)), "then its own"
    assert data.on_disk() == {"orders": [0]}
    data.close()
    giver.close()
