"""The temporary files of the job's Java process: in one folder, so that they can be found later.

Java deletes its temporary files when it ends, but not if it is killed. They are RocksDB's library
with 60 MB, and the databases of state. So each job deletes the folders of jobs that were killed.

A job locks its folder. The system releases the lock when the process ends or is killed. Java may
outlive the job for a moment, so the path of the folder is also on Java's command line.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spark.errors import JobError

_PREFIX = "queryable-spark-"
_ATTEMPTS = 10


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that exists during the block. Deletes the folders of processes that were killed.
    Raises JobError."""
    try:
        parent = Path(tempfile.gettempdir())
        _delete_abandoned(parent)
        folder, lock = _created(parent)
    except OSError as error:
        raise JobError(
            f"cannot make a folder for temporary files: {error}. Name another place with TMPDIR."
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _created(parent: Path) -> tuple[Path, int]:
    """A new folder and its lock. Raises OSError."""
    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        lock = _locked(folder)
        # Another job may delete a folder that is not locked yet.
        if lock is not None:
            return folder, lock
    raise OSError(f"folders in {parent} cannot be locked")


def _delete_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        lock = _locked(folder)
        if lock is None:
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid() and not _is_named(folder):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """The file descriptor of a folder that this process has locked. None if another process has
    locked it, or if the folder no longer exists."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            return descriptor
    os.close(descriptor)
    return None


def _is_named(folder: Path) -> bool:
    """Whether the command line of a process has the folder."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(folder) in file.read_bytes():
                return True
    return False
