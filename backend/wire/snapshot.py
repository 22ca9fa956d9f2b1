"""A copy of a store partition on its way between two instances: a stream of files.

    {"name": "000012.sst", "size": 4096}\n   4096 bytes   SHA-256 of them (32 bytes)
    …
    {"files": 7, "bytes": 123456}\n

It ends with the last line, so a stream that was cut is never taken for the whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Protocol

import orjson

PATH = "/internal/copy"
DIGEST_SIZE = hashlib.sha256().digest_size
PIECE = 1 << 18  # bytes that are read, hashed and sent at once
_MOST_HEADER = 1024
_MOST_FILES = 100_000
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}", re.ASCII)


class CopyError(ValueError):
    """A stream that is not a whole copy, and why."""


class Target(Protocol):
    """Where a file's bytes go."""

    def write(self, piece: bytes, /) -> object: ...

    def close(self) -> None: ...


def file_header(name: str, size: int) -> bytes:
    return orjson.dumps({"name": name, "size": size}) + b"\n"


def end_line(files: int, size: int) -> bytes:
    return orjson.dumps({"files": files, "bytes": size}) + b"\n"


def receive(
    read: Callable[[int], bytes],
    readline: Callable[[int], bytes],
    create: Callable[[str], Target],
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Writes all files of a stream to what `create(name)` gives; the bytes of all of them.

    `progress(bytes)` is called as they come. CopyError if anything is missing or was changed.
    """
    files = total = 0
    while True:
        line = readline(_MOST_HEADER)
        try:
            header = orjson.loads(line)
            if "files" in header:
                if (header["files"], header["bytes"]) != (files, total):
                    raise CopyError(f"{files} files with {total} bytes came of {header}")
                return total
            name, size = header["name"], header["size"]
        except (ValueError, KeyError, TypeError) as e:
            if isinstance(e, CopyError):
                raise
            raise CopyError(f"it breaks off after {files} files") from None
        is_name = isinstance(name, str) and _NAME.fullmatch(name)
        if not is_name or type(size) is not int or size < 0:
            raise CopyError(f"{name!r} of {size!r} bytes is no file of a store")
        if files >= _MOST_FILES:
            raise CopyError(f"it has more than {_MOST_FILES} files")
        target = create(name)
        try:
            _receive_file(read, name, size, target, lambda n, base=total: progress(base + n))  # type: ignore[misc]
        finally:
            target.close()
        files, total = files + 1, total + size


def _receive_file(
    read: Callable[[int], bytes],
    name: str,
    size: int,
    target: Target,
    progress: Callable[[int], None],
) -> None:
    digest = hashlib.sha256()
    left = size
    while left > 0:
        piece = read(min(left, PIECE))
        if not piece:
            raise CopyError(f"{name} breaks off {left} bytes before its end")
        digest.update(piece)
        target.write(piece)
        left -= len(piece)
        progress(size - left)
    stated = b""
    while len(stated) < DIGEST_SIZE and (piece := read(DIGEST_SIZE - len(stated))):
        stated += piece
    if stated != digest.digest():
        raise CopyError(f"{name} is not what was sent: its checksum is another")
