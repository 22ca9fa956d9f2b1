"""Makes data directories with a store, a copy, no marks, and files of other programs."""

from __future__ import annotations

import shutil
from pathlib import Path

from backend.storage.data_directory import DataDirectory
from backend.storage.ownership import MARK
from tests.support.in_process.examples import metadata

LEFTOVERS = ("0.copy-1", "0.deleted-1", "0.checkpoint-1", "0.aside-1")


def write_store(
    data: DataDirectory, view: str = "orders", partition: int = 0, records: int = 3
) -> None:
    store, _ = data.open(view, partition)
    batch = store.new_batch()
    for i in range(records):
        batch.put(b"\x01%d" % i, b"v")
    store.write(batch, records, metadata())
    store.close()


def copy_files(store: Path, snapshot: Path) -> None:
    """Copy RocksDB's files of a closed store into a folder of `DataDirectory.new_snapshot`."""
    for file in store.iterdir():
        if not file.name.startswith("~"):  # the mark, and other files of ours
            shutil.copy(file, snapshot)


def remove_marks(root: Path) -> None:
    """Leave the folder as versions without mark files wrote it."""
    for mark in list(root.rglob(MARK)):
        mark.unlink()


def add_foreign_files(root: Path) -> None:
    """Add folders and files of other programs."""
    for name in ("postgresql/15/base/1", "photos/2013/a.jpg", *(f"x/{n}/y" for n in LEFTOVERS)):
        path = root / name
        path.parent.mkdir(parents=True)
        path.write_text("precious")
