"""The data folder: its lock, and opening, setting aside and deleting store partitions."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rocksdict import Env

from backend.instance.settings import Settings
from backend.storage import in_use
from backend.storage.custom import CustomPartition, CustomStore
from backend.storage.options import SharedMemory, Tuning
from backend.storage.ownership import (
    LOCK,
    MARK,
    Mark,
    inspect,
    is_real_folder,
    keep_private,
    make_private,
    sync,
)
from backend.storage.recognition import is_store
from backend.storage.rocksdb_store import CHECKPOINT, RocksDBStore
from model.problems import ConfigurationError, TemporaryError
from model.records import StoreMetadata

log = logging.getLogger(__name__)

_ASIDE = ".aside-"
_DELETED = ".deleted-"
_SNAPSHOT = ".copy-"
_INSTALLED = "~installed"  # a file in a snapshot that has replaced the store of its partition
_PARTITION = re.compile(r"\d+", re.ASCII)
_ANY = re.compile(r"\d+(\..*)?", re.ASCII)
# suffixes of directories that a crash may leave behind
_CRASH_SUFFIXES = "|".join(map(re.escape, (_DELETED, _SNAPSHOT, CHECKPOINT)))
_LEFTOVER = re.compile(rf"\d+({_CRASH_SUFFIXES}).*", re.ASCII)


class DataDirectory:
    """`<root>/<view>/<partition>` directories of one application, locked for one process.

    The root and each directory have the application's mark file (`ownership`). Directories without
    it are never opened, moved or deleted.
    """

    def __init__(
        self,
        root: Path,
        tuning: Tuning | None = None,
        application: str = "queryable-topics",
    ) -> None:
        """Create, lock and mark the folder.

        Raises ConfigurationError if it cannot be used, or if it is not empty and does not belong to
        this application. In that case, nothing in it is changed.
        """
        self.root = root
        self._memory = SharedMemory(tuning)
        self._mark = Mark(application)
        self._custom: dict[str, type[CustomStore]] = {}
        # stores that are open in the folder of a snapshot: see `replace`
        self._moved: dict[tuple[str, int], Path] = {}
        # stores that were copied, and not opened since
        self._copies: set[tuple[str, int]] = set()
        lock: int | None = None
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.path.lexists(root / LOCK):
                lock = _acquire_lock(root)
            unmarked = inspect(root, application, is_store)
            if lock is None:
                # creating the lock also tests write access, which permission bits do not show
                lock = _acquire_lock(root)
                # again, because another process may have been faster
                unmarked = inspect(root, application, is_store)
            if unmarked is not None:
                self._mark_all(unmarked)
            keep_private(root)
            if in_use.is_copy(root):
                self._delete_all()
            in_use.begin(root)
        except OSError as e:
            if lock is not None:
                os.close(lock)
            raise TemporaryError(
                f"cannot write to the data folder {root}: {e.strerror}. "
                f"Set QUERYABLE_DATA_DIR to a folder that this user may write to."
            ) from e
        except ConfigurationError:
            if lock is not None:
                os.close(lock)
            raise
        self._lock = lock
        for leftover in sorted(self._marked(_LEFTOVER)):
            if _DELETED not in leftover.name and (leftover / _INSTALLED).exists():
                name, _, _ = leftover.name.partition(".")
                self._finish(leftover, leftover.with_name(name))
            else:
                self._mark.delete(leftover)

    def _mark_all(self, stores: Iterable[Path]) -> None:
        """Mark the stores, then the root. After a crash in between, the next start repeats it."""
        for store in stores:
            for path in (store.parent, store):
                keep_private(path)
            self._mark.put(store)
            log.info("marked %s as a store of application %s", store, self._mark.application)
        self._mark.put(self.root)

    def _delete_all(self) -> None:
        """Delete the stores of a folder that was copied while an instance was using it. If this is
        interrupted, the next start repeats it. Raises ConfigurationError if one cannot be deleted.
        """
        log.warning(
            "the data folder %s is a copy that was made while an instance was using it, so its "
            "files are of different moments: its stores are deleted and rebuilt", self.root,
        )  # fmt: skip
        for path in self._marked(_ANY):
            self._mark.delete(path)
        if left := self._marked(_ANY):
            raise ConfigurationError(
                f"cannot delete {left[0]}, which is of a copy that was made while an instance was "
                f"using it. Delete the data folder {self.root}."
            )

    def _marked(self, name: re.Pattern[str]) -> list[Path]:
        """The directories `<view>/<name>` with the mark of this application."""
        paths: list[Path] = []
        for view in self.root.iterdir():
            # skip unreadable folders such as lost+found
            with suppress(OSError):
                inside = list(view.iterdir()) if is_real_folder(view) else []
                paths += [p for p in inside if name.fullmatch(p.name) and self._mark.is_on(p)]
        return paths

    @classmethod
    def from_settings(cls, settings: Settings) -> DataDirectory:
        """The folder of an instance."""
        return cls(
            settings.data_dir,
            application=settings.application_id,
            tuning=Tuning.from_settings(settings),
        )

    def use_custom_store(self, view: str, store: type[CustomStore]) -> None:
        """Use this class for the view's store partitions."""
        self._custom[view] = store

    def path(self, view: str, partition: int) -> Path:
        """The folder of a store, which may not exist."""
        return self._moved.get((view, partition)) or self._usual_path(view, partition)

    def _usual_path(self, view: str, partition: int) -> Path:
        return self.root / view / str(partition)

    def open(
        self, view: str, partition: int, memory: bool = False
    ) -> tuple[RocksDBStore | CustomPartition, str | None]:
        """Open a store partition; also returns why it was replaced by an empty one, or None.

        A damaged store is set aside for inspection and replaced by an empty one, because its
        records are in Kafka. `memory`: open an in-memory store, which is always empty.
        """
        if view in self._custom:
            return CustomPartition(f"{view}/{partition}", self._custom[view]()), None
        if (moved := self._moved.pop((view, partition), None)) is not None:
            self._finish(moved, self._usual_path(view, partition))
        path = self.path(view, partition)
        if memory:
            self._mark.delete(path)  # a store from before the view had this setting
            self._make(path)
            options = self._memory.options()
            options.set_env(Env.mem_env())
            return RocksDBStore(path, options, self._mark, memory=True), None
        self._make(path)
        is_copy = (view, partition) in self._copies
        self._copies.discard((view, partition))
        try:
            return self._open(path, is_copy), None
        except Exception as e:
            if not _is_damage(e):
                raise
            aside = self.set_aside(view, partition)
            reason = f"RocksDB cannot open it ({e}); set aside as {aside.name}"
        self._make(path)
        return self._open(path), reason

    def _make(self, path: Path) -> None:
        """Create and mark the directory of a store. Raises FolderRefused if it exists and does
        not belong to this application."""
        make_private(path.parent)
        if is_real_folder(path) and not os.path.lexists(path / MARK) and is_store(path):
            # created by an older version, which does not write mark files
            self._mark.put(path)
        self._mark.make(path)

    def _open(self, path: Path, is_copy: bool = False) -> RocksDBStore:
        options = self._memory.store_options
        return RocksDBStore(
            path, options.loaded if is_copy else options.usual, self._mark, options, is_copy=is_copy
        )

    def rocksdb(self) -> tuple[dict[str, int], int]:
        """RocksDB's counters, by name, and the bytes in its block cache, of all stores together."""
        return self._memory.tickers(), self._memory.cache.get_usage()

    def set_aside(self, view: str, partition: int) -> Path:
        """Rename the directory of a damaged (closed) store. Only the latest one is kept."""
        path = self.path(view, partition)
        if not self._mark.is_on(path):
            return path  # an in-memory store
        for older in path.parent.glob(f"{partition}{_ASIDE}*"):
            self._mark.delete(older)
        aside = path.with_name(f"{partition}{_ASIDE}{time.time_ns() // 1_000_000}")
        path.rename(aside)
        self._moved.pop((view, partition), None)
        return aside

    def delete(self, view: str, partition: int) -> None:
        """Delete a (closed) store. It is renamed first, so that it is not opened after a crash."""
        path = self.path(view, partition)
        if self._mark.is_on(path):
            deleted = path.with_name(f"{partition}{_DELETED}{time.time_ns()}")
            path.rename(deleted)
            self._moved.pop((view, partition), None)
            self._mark.delete(deleted)

    def exists(self, view: str, partition: int) -> bool:
        return os.path.lexists(self.path(view, partition))

    def new_snapshot(self, view: str, partition: int) -> Path:
        """A new folder for the files of a snapshot, for `install` or `discard`."""
        path = self._usual_path(view, partition)
        snapshot = path.with_name(f"{path.name}{_SNAPSHOT}{time.time_ns()}")
        self._make(snapshot)
        return snapshot

    def install(self, snapshot: Path, view: str, partition: int) -> None:
        """Make a complete snapshot the store of a partition. Raises the errors of opening it.

        The store must reach the end of the log before it answers, because the snapshot's source may
        lag behind other instances. The files are synced before the rename, so that the store is
        complete after a power failure.
        """
        store = RocksDBStore(snapshot, self._memory.store_options.loaded, self._mark)
        try:
            if store.metadata is None or store.position is None:
                raise ValueError("the snapshot has no metadata")
            store.write(
                store.new_batch(), store.position, replace(store.metadata, answerable=False)
            )
        finally:
            store.close()
        _sync_all(snapshot)
        snapshot.rename(self._usual_path(view, partition))
        sync(snapshot.parent)
        self._copies.add((view, partition))

    def build(
        self,
        snapshot: Path,
        files: list[Path],
        position: int,
        metadata: StoreMetadata,
        check: Callable[[RocksDBStore], None],
    ) -> None:
        """Make a store of files in RocksDB's table format, in a folder of `new_snapshot`.

        `check(store)` raises if it does not have what it should. Raises StoreError.
        """
        store = RocksDBStore(snapshot, self._memory.store_options.usual, self._mark)
        try:
            store.ingest(files)
            check(store)
            store.initialise(position, metadata)
        finally:
            store.close()
        _sync_all(snapshot)

    def open_snapshot(self, snapshot: Path) -> RocksDBStore:
        """Open a store where it is, for `replace`. Raises the errors of opening it."""
        return self._open(snapshot)

    def replace(self, snapshot: Path, view: str, partition: int) -> Path | None:
        """Make a snapshot, whose store is open, the store of a partition.

        Returns the folder of the replaced store, for `discard` after it is closed. The new store
        stays where it is, because an open store cannot be renamed; it gets the usual name when it
        is opened again. After a crash, there is one of the two stores.
        """
        replaced = self.path(view, partition)
        (snapshot / _INSTALLED).touch()
        sync(snapshot)
        # a crash must not bring back the replaced store, even after `open` has renamed the snapshot
        if (replaced / _INSTALLED).exists():
            (replaced / _INSTALLED).unlink()
            sync(replaced)
        self._moved[view, partition] = snapshot
        return replaced if self._mark.is_on(replaced) else None

    def _finish(self, snapshot: Path, path: Path) -> None:
        """Rename a (closed) snapshot that has replaced a store to the usual name of the store."""
        if self._mark.is_on(path):
            deleted = path.with_name(f"{path.name}{_DELETED}{time.time_ns()}")
            path.rename(deleted)
            self._mark.delete(deleted)
        snapshot.rename(path)
        sync(path.parent)
        # if a crash prevents this, `replace` does it
        (path / _INSTALLED).unlink()

    def discard(self, snapshot: Path) -> None:
        """Delete the folder of an incomplete snapshot."""
        self._mark.delete(snapshot)

    def on_disk(self) -> dict[str, list[int]]:
        """The store partitions on disk: view -> partitions."""
        partitions: dict[str, list[int]] = {}
        for path in self._marked(_PARTITION):
            partitions.setdefault(path.parent.name, []).append(int(path.name))
        for view, partition in self._moved:
            if partition not in partitions.setdefault(view, []):
                partitions[view].append(partition)
        return partitions

    def close(self, stores_are_closed: bool = True) -> None:
        """Unlock the folder. If all stores are closed, it can be copied from now on."""
        if stores_are_closed:
            with suppress(OSError):  # then the folder counts as one after a crash
                in_use.end(self.root)
        os.close(self._lock)


def _sync_all(folder: Path) -> None:
    """Flush the files of a folder and its entries to disk."""
    for file in folder.iterdir():
        sync(file)
    sync(folder)


def _acquire_lock(root: Path) -> int:
    """Lock the folder until the returned file is closed. Raises TemporaryError if another
    process has locked it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(root / LOCK, flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise TemporaryError(
            f"the data folder {root} is in use by another instance. Every instance needs its "
            f"own: set QUERYABLE_DATA_DIR."
        ) from None
    return lock


def _is_damage(error: Exception) -> bool:
    """Whether opening failed because of damaged files, not because of the machine's state.

    rocksdict raises plain exceptions with RocksDB's status text. "IO error" alone is not damage: a
    full disk, too many open files and a locked database also cause it. Only errors about corrupt or
    missing files count as damage.
    """
    text = str(error)
    if isinstance(error, (ValueError, TypeError, struct.error)):
        return True  # malformed metadata or position
    return any(
        sign in text
        for sign in ("Corruption", "No such file", "Invalid argument", "does not exist", "NotFound")
    )
