"""The data folder: its lock, and opening, setting aside and deleting store partitions."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rocksdict import Env, Options

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
from model.problems import ConfigurationError

log = logging.getLogger(__name__)

_ASIDE = ".aside-"
_DELETED = ".deleted-"
_COPY = ".copy-"
_PARTITION = re.compile(r"\d+", re.ASCII)
# suffixes of directories that a crash may leave behind
_UNDER_WAY = "|".join(map(re.escape, (_DELETED, _COPY, CHECKPOINT)))
_LEFTOVER = re.compile(rf"\d+({_UNDER_WAY}).*", re.ASCII)


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

        ConfigurationError if it is not usable, or if it is not empty and belongs to something else;
        then nothing in it is changed.
        """
        self.root = root
        self._memory = SharedMemory(tuning)
        self._mark = Mark(application)
        self._custom: dict[str, type[CustomStore]] = {}
        lock: int | None = None
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.path.lexists(root / LOCK):
                lock = _locked(root)
            unmarked = inspect(root, application, is_store)
            if lock is None:
                # the lock is the write test, too: for root, permission bits mean nothing
                lock = _locked(root)
                unmarked = inspect(root, application, is_store)  # another process may be first
            if unmarked is not None:
                self._mark_all(unmarked)
            keep_private(root)
        except OSError as e:
            if lock is not None:
                os.close(lock)
            raise ConfigurationError(
                f"cannot write to the data folder {root}: {e.strerror}. "
                f"Set QUERYABLE_DATA_DIR to a folder that this user may write to."
            ) from e
        except ConfigurationError:
            if lock is not None:
                os.close(lock)
            raise
        self._lock = lock
        for leftover in self._ours(_LEFTOVER):
            self._mark.delete(leftover)

    def _mark_all(self, stores: Iterable[Path]) -> None:
        """Mark the stores, then the root: after a crash, the next start does it again."""
        for store in stores:
            for path in (store.parent, store):
                keep_private(path)
            self._mark.put(store)
            log.info("marked %s as a store of application %s", store, self._mark.application)
        self._mark.put(self.root)

    def _ours(self, name: re.Pattern[str]) -> list[Path]:
        """The directories `<view>/<name>` with our mark."""
        found: list[Path] = []
        for view in self.root.iterdir():
            # unreadable folders are not ours, for example lost+found
            with suppress(OSError):
                inside = list(view.iterdir()) if is_real_folder(view) else []
                found += [p for p in inside if name.fullmatch(p.name) and self._mark.is_on(p)]
        return found

    def use(self, view: str, store: type[CustomStore]) -> None:
        """Use this class for the view's store partitions."""
        self._custom[view] = store

    def path(self, view: str, partition: int) -> Path:
        return self.root / view / str(partition)

    def open(
        self, view: str, partition: int, memory: bool = False
    ) -> tuple[RocksDBStore | CustomPartition, str | None]:
        """An open store partition, and why it was replaced by an empty one (None if it was not).

        `memory`: an in-memory store, which is always empty.

        A damaged store is set aside for inspection and replaced by an empty one, because its
        records are in Kafka.
        """
        if view in self._custom:
            return CustomPartition(f"{view}/{partition}", self._custom[view]()), None
        path = self.path(view, partition)
        if memory:
            self._mark.delete(path)  # from when the view was stored on disk
            self._make(path)
            options = self._options()
            options.set_env(Env.mem_env())
            return RocksDBStore(path, options, self._mark, memory=True), None
        self._make(path)
        try:
            return self._open(path), None
        except Exception as e:
            if not _damaged(e):
                raise
            aside = self.set_aside(view, partition)
            reason = f"RocksDB cannot open it ({e}); set aside as {aside.name}"
        self._make(path)
        return self._open(path), reason

    def _make(self, path: Path) -> None:
        """Create and mark the directory of a store; FolderRefused if it is not ours."""
        make_private(path.parent)
        if is_real_folder(path) and not os.path.lexists(path / MARK) and is_store(path):
            # an older version without mark files has used the folder meanwhile
            self._mark.put(path)
        self._mark.make(path)

    def _open(self, path: Path) -> RocksDBStore:
        bulk_load = self._memory.options(bulk_load=True)
        return RocksDBStore(path, self._options(), self._mark, bulk_load)

    def _options(self) -> Options:
        return self._memory.options()

    def set_aside(self, view: str, partition: int) -> Path:
        """Rename the directory of a damaged (closed) store; only the latest one is kept."""
        path = self.path(view, partition)
        if not self._mark.is_on(path):
            return path  # an in-memory store
        for older in path.parent.glob(f"{path.name}{_ASIDE}*"):
            self._mark.delete(older)
        aside = path.with_name(f"{path.name}{_ASIDE}{time.time_ns() // 1_000_000}")
        path.rename(aside)
        return aside

    def delete(self, view: str, partition: int) -> None:
        """Delete a (closed) store; after a crash in between, it cannot be opened."""
        path = self.path(view, partition)
        if self._mark.is_on(path):
            doomed = path.with_name(f"{path.name}{_DELETED}{time.time_ns()}")
            path.rename(doomed)
            self._mark.delete(doomed)

    def exists(self, view: str, partition: int) -> bool:
        return os.path.lexists(self.path(view, partition))

    def new_snapshot(self, view: str, partition: int) -> Path:
        """A new folder for the files of a snapshot, for `install` or `discard`."""
        path = self.path(view, partition)
        copy = path.with_name(f"{path.name}{_COPY}{time.time_ns()}")
        self._make(copy)
        return copy

    def install(self, copy: Path, view: str, partition: int) -> None:
        """Make a complete snapshot the store of a partition; raises what opening it raises.

        It must reach the end of the log before it answers, because its source may be behind other
        instances. The files are synced before the rename, so that it is complete after a power
        failure.
        """
        store = RocksDBStore(copy, self._options(), self._mark)
        try:
            if store.metadata is None or store.position is None:
                raise ValueError("the snapshot has no metadata")
            store.write(
                store.new_batch(), store.position, replace(store.metadata, answerable=False)
            )
        finally:
            store.close()
        for file in copy.iterdir():
            sync(file)
        sync(copy)
        copy.rename(self.path(view, partition))
        sync(copy.parent)

    def discard(self, copy: Path) -> None:
        self._mark.delete(copy)

    def on_disk(self) -> dict[str, list[int]]:
        """The store partitions on disk: view -> partitions."""
        found: dict[str, list[int]] = {}
        for path in self._ours(_PARTITION):
            found.setdefault(path.parent.name, []).append(int(path.name))
        return found

    def close(self) -> None:
        os.close(self._lock)


def _locked(root: Path) -> int:
    """Lock the folder, until the file is closed. ConfigurationError if it is locked."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(root / LOCK, flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise ConfigurationError(
            f"the data folder {root} is in use by another instance. Every instance needs its "
            f"own: set QUERYABLE_DATA_DIR."
        ) from None
    return lock


def _damaged(error: Exception) -> bool:
    """Whether opening failed because of the files, not because of the machine's state.

    rocksdict raises plain exceptions with RocksDB's status text. A full disk, too many open files
    or a locked database are "IO error", too, but temporary. Only errors about corrupt or missing
    files count as damage.
    """
    text = str(error)
    if isinstance(error, (ValueError, TypeError, struct.error)):
        return True  # the metadata or the position is malformed
    return any(
        sign in text
        for sign in ("Corruption", "No such file", "Invalid argument", "does not exist", "NotFound")
    )
