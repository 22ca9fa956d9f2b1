"""Finds out whether a data folder is a copy that was made while an instance was using it.

Such a copy has files of different moments. RocksDB may open it without an error although the middle
of its write-ahead log is missing: the position is new, and entries before it are lost.

So a folder has the file `~in-use.json` while an instance uses it. It identifies the folder's lock
file by two values that no copy of it has: the inode, and the time at which the inode was created.
After a crash, the file is still there and still matches, and RocksDB recovers. The same is true in
a snapshot of a whole file system, which is of one moment. If the file does not match, the folder is
a copy.
"""

from __future__ import annotations

import ctypes
import struct
from contextlib import suppress
from pathlib import Path

import orjson

from backend.storage.ownership import LOCK, sync, write_atomically

IN_USE = "~in-use.json"
_FORMAT = 1

# statx(2)
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _STATX_BTIME = -100, 0x100, 0x800
_BIRTH_TIME_AT, _STATX_BYTES = 0x50, 256


def begin(root: Path) -> None:
    """Note that an instance uses the (locked) folder. Raises OSError."""
    content = {"format": _FORMAT, "lock": _identity(root / LOCK)}
    write_atomically(root / IN_USE, orjson.dumps(content) + b"\n")


def end(root: Path) -> None:
    """Note that all stores in the folder are closed. Raises OSError."""
    (root / IN_USE).unlink(missing_ok=True)
    sync(root)


def is_copy(root: Path) -> bool:
    """Whether the folder is a copy that was made between `begin` and `end`. Raises OSError."""
    try:
        content = orjson.loads((root / IN_USE).read_bytes())
    except FileNotFoundError:
        return False
    except ValueError:
        return True  # the file is replaced as a whole, so only a copy has a part of it
    return not isinstance(content, dict) or content.get("lock") != _identity(root / LOCK)


def _identity(path: Path) -> list[int]:
    """The inode, and the time of its creation in ns (0: the file system has none)."""
    return [path.lstat().st_ino, _birth_time(path)]


def _birth_time(path: Path) -> int:
    """The creation time in ns; 0 if unknown. Python's `stat` has it on macOS and the BSDs, but not
    on Linux."""
    if (born := getattr(path.lstat(), "st_birthtime", None)) is not None:
        return int(born * 1_000_000_000)
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    with suppress(AttributeError):  # a C library without statx
        statx = ctypes.CDLL(None).statx
        failed = statx(_AT_FDCWD, bytes(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, buffer)
        (mask,) = struct.unpack_from("=I", buffer)
        if not failed and mask & _STATX_BTIME:
            seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BIRTH_TIME_AT)
            return int(seconds * 1_000_000_000 + nanoseconds)
    return 0
