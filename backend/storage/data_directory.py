"""The data folder: who may use it, and opening, keeping aside and deleting store partitions."""

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
    is_real_folder,
    keep_private,
    look,
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
# what a crash leaves of something that was under way
_UNDER_WAY = "|".join(map(re.escape, (_DELETED, _COPY, CHECKPOINT)))
_LEFTOVER = re.compile(rf"\d+({_UNDER_WAY}).*", re.ASCII)


class DataDirectory:
    """`<root>/<view>/<partition>` directories of one application, locked for one process.

    The root and each directory carry the application's mark (`ownership`). What does not is never
    opened, moved or deleted.
    """

    def __init__(
        self,
        root: Path,
        tuning: Tuning | None = None,
        application: str = "queryable-topics",
    ) -> None:
        """Create, lock and mark the folder; ConfigurationError if it cannot be used, or is not ours
        and not empty: then nothing in it is changed."""
        self.root = root
        self._memory = SharedMemory(tuning)
        self._mark = Mark(application)
        self._custom: dict[str, type[CustomStore]] = {}
        lock: int | None = None
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.path.lexists(root / LOCK):
                lock = _locked(root)
            unmarked = look(root, application, is_store)
            if lock is None:
                # the lock is the write test too: as root, permission bits tell nothing
                lock = _locked(root)
                unmarked = look(root, application, is_store)  # another may have come first
            if unmarked is not None:
                self._mark_all(unmarked)
            keep_private(root)
        except OSError as e:
            if lock is not None:
                os.close(lock)
            raise ConfigurationError(
                f"the data folder {root} cannot be written: {e.strerror}. "
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
        """The root last: where this breaks off it begins anew."""
        for store in stores:
            for path in (store.parent, store):
                keep_private(path)
            self._mark.put(store)
            log.info("%s is marked as a store of application %s", store, self._mark.application)
        self._mark.put(self.root)

    def _ours(self, name: re.Pattern[str]) -> list[Path]:
        """The directories `<view>/<name>` with our mark."""
        found: list[Path] = []
        for view in self.root.iterdir():
            # what we cannot look into is not ours: lost+found, say
            with suppress(OSError):
                inside = list(view.iterdir()) if is_real_folder(view) else []
                found += [p for p in inside if name.fullmatch(p.name) and self._mark.is_on(p)]
        return found

    def use(self, view: str, store: type[CustomStore]) -> None:
        """Keep the view's partitions in objects of this class."""
        self._custom[view] = store

    def path(self, view: str, partition: int) -> Path:
        return self.root / view / str(partition)

    def open(
        self, view: str, partition: int, memory: bool = False
    ) -> tuple[RocksDBStore | CustomPartition, str | None]:
        """An open store partition, and why it had to be started anew, if it had to.

        In `memory` it is always a new one, and its path only its name.

        One that does not open is kept aside for whoever wants to look into it, and replaced by an
        empty one: its records are in Kafka.
        """
        if view in self._custom:
            return CustomPartition(f"{view}/{partition}", self._custom[view]()), None
        path = self.path(view, partition)
        if memory:
            self._mark.delete(path)  # of the same view, when it was kept on disk
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
            reason = f"RocksDB cannot open it ({e}); kept aside as {aside.name}"
        self._make(path)
        return self._open(path), reason

    def _make(self, path: Path) -> None:
        """The marked directory of a store; FolderRefused if what is there is not ours."""
        make_private(path.parent)
        if is_real_folder(path) and not os.path.lexists(path / MARK) and is_store(path):
            # a version from before there were marks has used the folder since
            self._mark.put(path)
        self._mark.make(path)

    def _open(self, path: Path) -> RocksDBStore:
        loading = self._memory.options(loading=True)
        return RocksDBStore(path, self._options(), self._mark, loading)

    def _options(self) -> Options:
        return self._memory.options()

    def set_aside(self, view: str, partition: int) -> Path:
        """Move a damaged (closed) store partition out of the way; the last one aside is kept."""
        path = self.path(view, partition)
        if not self._mark.is_on(path):
            return path  # it was in memory
        for older in path.parent.glob(f"{path.name}{_ASIDE}*"):
            self._mark.delete(older)
        aside = path.with_name(f"{path.name}{_ASIDE}{time.time_ns() // 1_000_000}")
        path.rename(aside)
        return aside

    def delete(self, view: str, partition: int) -> None:
        """Delete a (closed) store partition; a crash half way leaves nothing that opens."""
        path = self.path(view, partition)
        if self._mark.is_on(path):
            doomed = path.with_name(f"{path.name}{_DELETED}{time.time_ns()}")
            path.rename(doomed)
            self._mark.delete(doomed)

    def exists(self, view: str, partition: int) -> bool:
        return os.path.lexists(self.path(view, partition))

    def new_copy(self, view: str, partition: int) -> Path:
        """A new folder for the files of a copy; `adopt` or `discard` it."""
        path = self.path(view, partition)
        copy = path.with_name(f"{path.name}{_COPY}{time.time_ns()}")
        self._make(copy)
        return copy

    def adopt(self, copy: Path, view: str, partition: int) -> None:
        """Makes a whole copy the store partition; raises what opening it raises.

        It has to reach the end before it answers: whoever gave it may be behind others that did.
        Under its name it is on disk as a whole, also after a power failure.
        """
        store = RocksDBStore(copy, self._options(), self._mark)
        try:
            if store.identity is None or store.position is None:
                raise ValueError("it has no identity")
            store.write(
                store.new_batch(), store.position, replace(store.identity, answerable=False)
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

    def held(self) -> dict[str, list[int]]:
        """The store partitions on disk: view -> partitions."""
        found: dict[str, list[int]] = {}
        for path in self._ours(_PARTITION):
            found.setdefault(path.parent.name, []).append(int(path.name))
        return found

    def close(self) -> None:
        os.close(self._lock)


def _locked(root: Path) -> int:
    """The folder's lock, for as long as it is open. ConfigurationError if another has it."""
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
    """Whether opening failed for what is in the directory, not for the machine's state.

    rocksdict raises plain exceptions that carry RocksDB's status text. A full disk, too many open
    files or a held lock are "IO error" too, but pass; only what says that files are wrong or gone
    is damage.
    """
    text = str(error)
    if isinstance(error, (ValueError, TypeError, struct.error)):
        return True  # the identity or the position is not what we write
    return any(
        sign in text
        for sign in ("Corruption", "No such file", "Invalid argument", "does not exist", "NotFound")
    )
