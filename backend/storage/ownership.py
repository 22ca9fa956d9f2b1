"""Ownership of folders: a mark file in each folder names the application that created it.

Only folders with the mark of this application are deleted. A data folder without a mark is used
only if it is empty. Symbolic links are never followed. This module does not need RocksDB.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from model.problems import ConfigurationError

log = logging.getLogger(__name__)

# names that neither views nor RocksDB files can have
MARK = "~queryable.json"
LOCK = "~lock"
_NEW = f"{MARK}.new"
_FORMAT = 1
_IGNORED = frozenset({LOCK, _NEW, "lost+found"})  # the last is in every new ext4 file system

_VIEW = re.compile(r"[A-Za-z0-9._-]+(@[0-9]+)?", re.ASCII)
_PARTITION = re.compile(r"\d+", re.ASCII)
# RocksDB's unfinished checkpoints end with .tmp
_LEFTOVER = re.compile(r"\d+\.(aside|copy|deleted|checkpoint)-\d+(\.tmp)?", re.ASCII)
_CONFIG_FILES = {"rocksdict-config.json"}  # left behind by an in-memory store after a crash


class FolderRefused(ConfigurationError):
    """A folder must not be used. `remedy` says how to fix it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}. {remedy}.")
        self.problem, self.remedy = problem, remedy


@dataclass(frozen=True)
class Mark:
    """The mark of an application, and what is done with marked folders."""

    application: str

    def is_on(self, folder: Path) -> bool:
        """Whether the folder has this mark. False if it or its parent is a symbolic link."""
        try:
            is_real = is_real_folder(folder.parent) and is_real_folder(folder)
            return is_real and marked_by(folder) == self.application
        except (OSError, ValueError):
            return False

    def put(self, folder: Path) -> None:
        """Mark the folder, atomically. Raises OSError."""
        mark = {"application": self.application, "format": _FORMAT}
        write_atomically(folder / MARK, orjson.dumps(mark) + b"\n")

    def make(self, folder: Path) -> None:
        """Create and mark a folder that only this user can access.

        An existing folder must be empty or have this mark. Raises FolderRefused, OSError.
        """
        make_private(folder)
        if self.is_on(folder):
            return
        if any(name != _NEW for name in os.listdir(folder)):
            raise FolderRefused(
                f"{folder} is not a store of application {self.application!r}: it is not empty and "
                f"has no {MARK} of this application",
                "Move it somewhere else",
            )
        self.put(folder)

    def delete(self, folder: Path) -> None:
        """Delete the folder if it has this mark. The mark file is deleted last, so that the rest
        can be deleted after a crash."""
        if not self.is_on(folder):
            if os.path.lexists(folder):
                log.warning("not deleting %s: it has no %s of this application", folder, MARK)
            return
        try:
            for entry in list(os.scandir(folder)):
                if entry.name == MARK:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)
            (folder / MARK).unlink()
            folder.rmdir()
        except OSError as e:
            log.warning("cannot delete %s: %s", folder, e)


def marked_by(folder: Path) -> str | None:
    """The application in the folder's mark; None without a mark.

    Raises ValueError if the mark is malformed or of an unknown version, OSError if reading fails.
    """
    try:
        fd = os.open(folder / MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        content = orjson.loads(file.read(10_000))
    if not isinstance(content, dict) or not isinstance(content.get("application"), str):
        raise ValueError("it does not name an application")
    if content.get("format") != _FORMAT:
        raise ValueError(f"its format is {content.get('format')!r}, this version needs {_FORMAT}")
    application: str = content["application"]
    return application


def inspect(root: Path, application: str, is_store: Callable[[Path], bool]) -> list[Path] | None:
    """Check whether an instance of the application may use this data folder; changes nothing.

    Returns None if it is marked already. Otherwise the caller must mark it and the returned
    folders, which are stores of versions without mark files. `is_store(path)`: whether a folder is
    a store. Raises FolderRefused if the data folder must not be used.
    """
    try:
        owner = marked_by(root)
    except ValueError as e:
        raise FolderRefused(
            f"the data folder {root} has an invalid file {MARK}: {e}",
            "Set QUERYABLE_DATA_DIR to another folder",
        ) from None
    if owner == application:
        return None
    if owner is not None:
        raise FolderRefused(
            f"the data folder {root} belongs to application {owner!r}, but this instance belongs "
            f"to {application!r}",
            f"Set QUERYABLE_DATA_DIR to another folder, or QUERYABLE_APPLICATION_ID to {owner!r}",
        )
    entries = sorted(entry for entry in root.iterdir() if entry.name not in _IGNORED)
    stores: list[Path] = []
    foreign_paths: Iterator[Path | None] = (_stores(entry, stores, is_store) for entry in entries)
    if not (root / LOCK).is_file():
        foreign_paths = iter(entries)
    foreign = next(filter(None, foreign_paths), None)
    if foreign is not None:
        raise FolderRefused(
            f"the data folder {root} is not empty and was not created by an instance: it has no "
            f"{MARK}, and {foreign.relative_to(root)} is not a store. Nothing in it was changed",
            "Set QUERYABLE_DATA_DIR to an empty or a new folder",
        )
    return stores


def _stores(view: Path, stores: list[Path], is_store: Callable[[Path], bool]) -> Path | None:
    """Add the stores in a view's folder to `stores`. Returns a path that does not belong to a data
    folder, or None.

    Directories that a crash left behind may be damaged or incomplete. They are accepted, but they
    are marked, and so deleted later, only if they are stores.
    """
    if not _VIEW.fullmatch(view.name) or not is_real_folder(view):
        return view
    own_stores = list[Path]()
    leftovers = False
    for path in sorted(view.iterdir()):
        is_leftover = _LEFTOVER.fullmatch(path.name) is not None
        if not is_real_folder(path) or not (is_leftover or _PARTITION.fullmatch(path.name)):
            return path
        names = set(os.listdir(path))
        if not names:
            continue  # it is marked when it is used
        if names == _CONFIG_FILES or is_store(path):
            own_stores.append(path)
        elif is_leftover:
            leftovers = True
        else:
            return path
    if leftovers and not own_stores:
        return view
    stores += own_stores
    return None


def is_real_folder(path: Path) -> bool:
    """Whether this is a folder, not a symbolic link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def make_private(folder: Path) -> None:
    """Create the folder if it does not exist, and make it private.

    Raises FolderRefused, OSError.
    """
    if folder.is_symlink():
        raise FolderRefused(
            f"{folder} is a symbolic link, and symbolic links are not followed",
            "Replace it with a folder, or link the whole data folder",
        )
    folder.mkdir(mode=0o700, exist_ok=True)
    keep_private(folder)


def keep_private(folder: Path) -> None:
    """Remove the access rights of other users than the owner."""
    try:
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except PermissionError:
        # the owner is another user, for example root, with write access for a group
        log.warning("cannot change the access rights of %s: other users may read it", folder)


def write_atomically(path: Path, content: bytes) -> None:
    """Create or replace a file. After a crash, the file is either unchanged or complete. While it
    is written, there is also a file with the suffix .new. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file's content or a folder's entries to disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
