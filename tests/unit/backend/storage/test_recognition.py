"""Tests of data directories of versions without mark files: they are recognised once and marked."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from backend.storage import data_directory as folders
from backend.storage.data_directory import DataDirectory
from backend.storage.ownership import MARK
from model.problems import ConfigurationError
from tests.unit.backend.storage.data_directories import remove_marks, write_store


def test_a_data_folder_without_marks_is_recognised_once(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    write_store(data)
    write_store(data, "by.host", 11)
    write_store(data, partition=1)
    data.open("memory", 0, memory=True)  # left by a crash: only rocksdict's own file
    data.close()
    (tmp_path / "orders" / "1").rename(tmp_path / "orders" / "1.copy-5")
    half_deleted = tmp_path / "orders" / "2.deleted-5"
    half_deleted.mkdir()
    (half_deleted / "000004.sst").touch()
    remove_marks(tmp_path)
    for path in tmp_path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)

    data = DataDirectory(tmp_path, application="ours")
    assert data.on_disk() == {"orders": [0], "by.host": [11], "memory": [0]}
    assert json.loads((tmp_path / MARK).read_text()) == {"application": "ours", "format": 1}
    assert not (tmp_path / "orders" / "1.copy-5").exists(), (
        "it was a store, so it was marked and deleted"
    )
    assert half_deleted.exists(), "its owner is unknown"
    assert stat.S_IMODE((tmp_path / "orders" / "0").stat().st_mode) == 0o700
    store, reason = data.open("orders", 0)
    assert (reason, store.position, store.get(b"\x012")) == (None, 3, b"v")
    store.close()
    data.close()
    # afterwards, foreign files do not matter
    (tmp_path / "notes.txt").touch()
    again = DataDirectory(tmp_path, application="ours")
    assert again.on_disk() == {"orders": [0], "by.host": [11], "memory": [0]}
    again.close()


def test_an_interrupted_recognition_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataDirectory(tmp_path)
    for partition in range(3):
        write_store(data, partition=partition)
    data.close()
    remove_marks(tmp_path)
    put, marked = folders.Mark.put, list[Path]()

    def put_two(mark: folders.Mark, path: Path) -> None:
        if len(marked) == 2:
            raise OSError(28, "No space left on device")
        marked.append(path)
        put(mark, path)

    monkeypatch.setattr(folders.Mark, "put", put_two)
    with pytest.raises(ConfigurationError, match="No space left"):
        DataDirectory(tmp_path)
    monkeypatch.undo()
    data = DataDirectory(tmp_path)
    assert sorted(data.on_disk()["orders"]) == [0, 1, 2]
    data.close()


def test_a_store_that_an_older_version_has_added_is_used(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    write_store(data)
    (tmp_path / "orders" / "0" / MARK).unlink()
    assert data.on_disk() == {}
    store, reason = data.open("orders", 0)
    assert (reason, store.position) == (None, 3)
    store.close()
    assert data.on_disk() == {"orders": [0]}
    data.close()
