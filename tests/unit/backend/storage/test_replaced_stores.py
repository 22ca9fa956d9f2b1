"""A store that is replaced stays replaced, also after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.storage.data_directory import DataDirectory
from backend.storage.ownership import Mark
from model.records import StoreMetadata


def metadata(push: str) -> StoreMetadata:
    return StoreMetadata("hash", "topic-1", 1, -1, True, 0, 0, 0, push)


def replace(directory: DataDirectory, push: str) -> Path | None:
    """Replaces the store by one with this push; returns the folder of the one before."""
    snapshot = directory.new_snapshot("orders", 0)
    directory.build(snapshot, [], 0, metadata(push), lambda _: None)
    store = directory.open_snapshot(snapshot)
    before = directory.replace(snapshot, "orders", 0)
    store.close()
    return before


def test_a_store_that_was_replaced_twice_does_not_come_back(tmp_path: Path) -> None:
    """The instance is killed before the folder of the first one is deleted."""
    directory = DataDirectory(tmp_path)
    replace(directory, "first")
    before = replace(directory, "second")
    # the partition moves away and back, so the second one gets the usual name
    store, _ = directory.open("orders", 0)
    store.close()
    assert before is not None
    assert before.is_dir()
    directory.close()

    directory = DataDirectory(tmp_path)
    store, reason = directory.open("orders", 0)
    assert reason is None
    assert store.metadata == metadata("second")
    store.close()
    assert [path.name for path in (tmp_path / "orders").iterdir()] == ["0"]
    directory.close()


@pytest.mark.parametrize("step", ["rename", "unlink"])
def test_a_store_whose_renaming_is_interrupted_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Regression: after a kill right before the renaming, it was deleted at the next start."""
    directory = DataDirectory(tmp_path)
    replace(directory, "first")
    before = replace(directory, "second")
    assert before is not None
    directory.discard(before)

    def kill(self: Path, *_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(Path, step, kill)
        with pytest.raises(KeyboardInterrupt):
            directory.open("orders", 0)
    directory.close()

    for push in ("second", "third"):
        directory = DataDirectory(tmp_path)
        store, reason = directory.open("orders", 0)
        assert reason is None
        assert store.metadata == metadata(push)
        store.close()
        replace(directory, "third")
        directory.close()


def test_a_store_that_was_deleted_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instance is killed after the folder was renamed, and before its files are deleted."""
    directory = DataDirectory(tmp_path)
    replace(directory, "first")
    with monkeypatch.context() as killed:
        killed.setattr(Mark, "delete", lambda *_: None)
        directory.delete("orders", 0)
    directory.close()

    directory = DataDirectory(tmp_path)
    assert not directory.exists("orders", 0)
    assert list((tmp_path / "orders").iterdir()) == []
    directory.close()
