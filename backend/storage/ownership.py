"""Whose a folder is. A small file in it, the mark, names the application that made it.

Only folders with our mark are ever deleted, and a data folder without it is not used, unless it is
empty. Symbolic links are never followed. Nothing here needs RocksDB.
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

# neither a view nor a file of RocksDB can have these names
MARK = "~queryable.json"
LOCK = "~lock"
_NEW = f"{MARK}.new"
_FORMAT = 1
_IGNORED = frozenset({LOCK, _NEW, "lost+found"})  # the last is in each new ext4 file system

_VIEW = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_PARTITION = re.compile(r"\d+", re.ASCII)
# what RocksDB leaves of a checkpoint that it has not finished ends with .tmp
_LEFTOVER = re.compile(r"\d+\.(aside|copy|deleted|checkpoint)-\d+(\.tmp)?", re.ASCII)
_ONLY_CONFIG = {"rocksdict-config.json"}  # what a store in memory leaves in a crash


class FolderRefused(ConfigurationError):
    """A folder that is not ours: what it is, and what to do."""

    def __init__(self, says: str, do: str) -> None:
        super().__init__(f"{says}. {do}.")
        self.says, self.do = says, do


@dataclass(frozen=True)
class Mark:
    """The mark of one application."""

    application: str

    def is_on(self, folder: Path) -> bool:
        """Whether this is a real folder, within a real one, that carries this mark."""
        try:
            real = is_real_folder(folder.parent) and is_real_folder(folder)
            return real and marked_by(folder) == self.application
        except (OSError, ValueError):
            return False

    def put(self, folder: Path) -> None:
        """Mark the folder: the mark is there as a whole or not at all. OSError."""
        new = folder / _NEW
        with new.open("wb") as file:
            file.write(orjson.dumps({"application": self.application, "format": _FORMAT}) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.rename(folder / MARK)
        sync(folder)

    def make(self, folder: Path) -> None:
        """Make and mark it, private to this user; one that is there has to be ours or empty.

        FolderRefused, OSError.
        """
        make_private(folder)
        if self.is_on(folder):
            return
        if any(name != _NEW for name in os.listdir(folder)):
            raise FolderRefused(
                f"{folder} is not a store of application {self.application!r}: it has no "
                f"{MARK} of it",
                "Move it to somewhere else",
            )
        self.put(folder)

    def delete(self, folder: Path) -> None:
        """Delete a folder with this mark; any other is left as it is. The mark goes last, so what
        a crash leaves can be deleted later."""
        if not self.is_on(folder):
            if os.path.lexists(folder):
                log.warning("%s is not deleted: it has no %s of ours", folder, MARK)
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
            log.warning("%s cannot be deleted now: %s", folder, e)


def marked_by(folder: Path) -> str | None:
    """The application that the folder's mark names; None where there is none.

    ValueError if this is no mark that this version knows, OSError if it cannot be read.
    """
    try:
        fd = os.open(folder / MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        stated = orjson.loads(file.read(10_000))
    if not isinstance(stated, dict) or not isinstance(stated.get("application"), str):
        raise ValueError("it names no application")
    if stated.get("format") != _FORMAT:
        raise ValueError(f"its format is {stated.get('format')!r}, this version knows {_FORMAT}")
    application: str = stated["application"]
    return application


def look(root: Path, application: str, is_store: Callable[[Path], bool]) -> list[Path] | None:
    """Whether an instance of the application may use this data folder; changes nothing.

    None: it is marked already. Else it has to be marked, and so have the folders returned: stores
    from before there were marks. `is_store(path)` looks into a folder for our identity.
    FolderRefused says why it may not be used.
    """
    try:
        owner = marked_by(root)
    except ValueError as e:
        raise FolderRefused(
            f"the data folder {root} has a file {MARK} that cannot be understood: {e}",
            "Set QUERYABLE_DATA_DIR to another folder",
        ) from None
    if owner == application:
        return None
    if owner is not None:
        raise FolderRefused(
            f"the data folder {root} belongs to application {owner!r}, and this instance is of "
            f"{application!r}",
            f"Set QUERYABLE_DATA_DIR to another folder, or QUERYABLE_APPLICATION_ID to {owner!r}",
        )
    entries = sorted(entry for entry in root.iterdir() if entry.name not in _IGNORED)
    stores: list[Path] = []
    strangers: Iterator[Path | None] = (_stores(entry, stores, is_store) for entry in entries)
    if not (root / LOCK).is_file():
        strangers = iter(entries)
    stranger = next(filter(None, strangers), None)
    if stranger is not None:
        raise FolderRefused(
            f"the data folder {root} is not empty, and no instance has made it: it has no {MARK}, "
            f"and {stranger.relative_to(root)} is not a store. Nothing in it was changed",
            "Set QUERYABLE_DATA_DIR to an empty or a new folder",
        )
    return stores


def _stores(view: Path, stores: list[Path], is_store: Callable[[Path], bool]) -> Path | None:
    """Adds the stores of a view's folder to `stores`; what is there and is not ours, if anything.

    Leftovers may be damaged or half deleted: they are no reason to refuse, and are marked (and so
    deleted one day) only if they are stores.
    """
    if not _VIEW.fullmatch(view.name) or not is_real_folder(view):
        return view
    found = list[Path]()
    leftovers = False
    for path in sorted(view.iterdir()):
        is_leftover = _LEFTOVER.fullmatch(path.name) is not None
        if not is_real_folder(path) or not (is_leftover or _PARTITION.fullmatch(path.name)):
            return path
        names = set(os.listdir(path))
        if not names:
            continue  # to be marked when it is used
        if names == _ONLY_CONFIG or is_store(path):
            found.append(path)
        elif is_leftover:
            leftovers = True
        else:
            return path
    if leftovers and not found:
        return view
    stores += found
    return None


def is_real_folder(path: Path) -> bool:
    """A folder, and no symbolic link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def make_private(folder: Path) -> None:
    """Make the folder, if it is not there, and keep it private. FolderRefused, OSError."""
    if folder.is_symlink():
        raise FolderRefused(
            f"{folder} is a symbolic link, and those are not followed",
            "Put a folder in its place, or link the whole data folder",
        )
    folder.mkdir(mode=0o700, exist_ok=True)
    keep_private(folder)


def keep_private(folder: Path) -> None:
    """Nobody but the owner may look into the folder."""
    try:
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except PermissionError:
        # somebody else's: a volume that belongs to root, with write access for a group
        log.warning("the access rights of %s cannot be changed: others may look into it", folder)


def sync(path: Path) -> None:
    """The file's content, or the folder's names, are on disk when this returns. OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
