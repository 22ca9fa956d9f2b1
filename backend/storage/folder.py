"""The data folder: who may use it, and opening, keeping aside and deleting store partitions."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import struct
import time
from dataclasses import replace
from pathlib import Path

from rocksdict import Env, Options

from backend.core.errors import ConfigurationError
from backend.storage.custom import CustomPartition, CustomStore
from backend.storage.options import SharedMemory, Tuning
from backend.storage.partition import CHECKPOINT, StorePartition

log = logging.getLogger(__name__)

_LOCK = "~lock"  # no view can have this name: a view's folder lies beside it
_ASIDE = ".aside-"
_DELETED = ".deleted-"
_COPY = ".copy-"


class DataFolder:
    """`<root>/<view>/<partition>` directories, locked for one process."""

    def __init__(self, root: Path, tuning: Tuning | None = None) -> None:
        """Create and lock the folder; ConfigurationError if it cannot be used."""
        self.root = root
        self._memory = SharedMemory(tuning)
        self._custom: dict[str, type[CustomStore]] = {}
        try:
            root.mkdir(parents=True, exist_ok=True)
            # the lock is the write test too: as root, permission bits tell nothing
            self._lock = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as e:
            raise ConfigurationError(
                f"the data folder {root} cannot be written: {e.strerror}. "
                f"Set QUERYABLE_DATA_DIR to a folder that this user may write to."
            ) from e
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise ConfigurationError(
                f"the data folder {root} is in use by another instance. Every instance needs its "
                f"own: set QUERYABLE_DATA_DIR."
            ) from None
        for mark in (_DELETED, _COPY, CHECKPOINT):
            for leftover in root.glob(f"*/*{mark}*"):
                shutil.rmtree(leftover, ignore_errors=True)

    def use(self, view: str, store: type[CustomStore]) -> None:
        """Keep the view's partitions in objects of this class."""
        self._custom[view] = store

    def path(self, view: str, partition: int) -> Path:
        return self.root / view / str(partition)

    def open(
        self, view: str, partition: int, memory: bool = False
    ) -> tuple[StorePartition | CustomPartition, str | None]:
        """An open store partition, and why it had to be started anew, if it had to.

        In `memory` it is always a new one, and its path only its name.

        One that does not open is kept aside for whoever wants to look into it, and replaced by an
        empty one: its records are in Kafka.
        """
        if view in self._custom:
            return CustomPartition(f"{view}/{partition}", self._custom[view]()), None
        path = self.path(view, partition)
        path.parent.mkdir(parents=True, exist_ok=True)
        if memory:
            shutil.rmtree(path, ignore_errors=True)  # of the same view, when it was kept on disk
            options = self._options()
            options.set_env(Env.mem_env())
            return StorePartition(path, options, memory=True), None
        try:
            return self._open(path), None
        except Exception as e:
            if not _damaged(e):
                raise
            aside = self.set_aside(view, partition)
            reason = f"RocksDB cannot open it ({e}); kept aside as {aside.name}"
        return self._open(path), reason

    def _open(self, path: Path) -> StorePartition:
        return StorePartition(path, self._options(), self._memory.options(loading=True))

    def _options(self) -> Options:
        return self._memory.options()

    def set_aside(self, view: str, partition: int) -> Path:
        """Move a damaged (closed) store partition out of the way; the last one aside is kept."""
        path = self.path(view, partition)
        if not path.exists():
            return path  # it was in memory
        for older in path.parent.glob(f"{path.name}{_ASIDE}*"):
            shutil.rmtree(older, ignore_errors=True)
        aside = path.with_name(f"{path.name}{_ASIDE}{time.time_ns() // 1_000_000}")
        path.rename(aside)
        return aside

    def delete(self, view: str, partition: int) -> None:
        """Delete a (closed) store partition; a crash half way leaves nothing that opens."""
        path = self.path(view, partition)
        if path.exists():
            doomed = path.with_name(f"{path.name}{_DELETED}{time.time_ns()}")
            path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def exists(self, view: str, partition: int) -> bool:
        return self.path(view, partition).exists()

    def new_copy(self, view: str, partition: int) -> Path:
        """A new folder for the files of a copy; `adopt` or `discard` it."""
        path = self.path(view, partition)
        copy = path.with_name(f"{path.name}{_COPY}{time.time_ns()}")
        copy.mkdir(parents=True)
        return copy

    def adopt(self, copy: Path, view: str, partition: int) -> None:
        """Makes a whole copy the store partition; raises what opening it raises.

        It has to reach the end before it answers: whoever gave it may be behind others that did.
        """
        store = StorePartition(copy, self._options())
        try:
            if store.identity is None or store.position is None:
                raise ValueError("it has no identity")
            store.write(
                store.new_batch(), store.position, replace(store.identity, answerable=False)
            )
        finally:
            store.close()
        copy.rename(self.path(view, partition))

    def discard(self, copy: Path) -> None:
        shutil.rmtree(copy, ignore_errors=True)

    def held(self) -> dict[str, list[int]]:
        """The store partitions on disk: view -> partitions."""
        found: dict[str, list[int]] = {}
        for path in self.root.glob("*/*"):
            if path.name.isdecimal() and path.is_dir():
                found.setdefault(path.parent.name, []).append(int(path.name))
        return found

    def close(self) -> None:
        os.close(self._lock)


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
