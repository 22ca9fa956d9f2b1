"""The transfer format of a store partition's snapshot, which is a stream of files.

    {"name": "000012.sst", "size": 4096}\n   4096 bytes   SHA-256 of them (32 bytes)
    …
    {"files": 7, "bytes": 123456}\n

    <HMAC-SHA256 in hex>\n

The line with the numbers shows that the stream is not truncated. The last line, only with a cluster
secret, is the HMAC of all lines and checksums. So no other program can replace a file on the way.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Protocol

import orjson

PATH = "/internal/copy"
_DIGEST_SIZE = hashlib.sha256().digest_size
PIECE = 1 << 18  # bytes per read, hash update and send
_MAX_HEADER_BYTES = 1024
_MAX_FILES = 100_000
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}", re.ASCII)


class SnapshotError(ValueError):
    """The stream is not a complete snapshot; the message gives the reason."""


class Mac(Protocol):
    """The HMAC of a stream."""

    def add(self, line: bytes) -> None: ...

    def is_mac(self, given: bytes | None) -> bool: ...


class Target(Protocol):
    """An open file to which a received file is written."""

    def write(self, chunk: bytes, /) -> object: ...

    def close(self) -> None: ...


def file_header(name: str, size: int) -> bytes:
    """The line before the `size` bytes of a file."""
    return orjson.dumps({"name": name, "size": size}) + b"\n"


def end_line(files: int, size: int) -> bytes:
    """The last line; `size`: bytes of all files."""
    return orjson.dumps({"files": files, "bytes": size}) + b"\n"


def seconds_left(problem: bytes) -> float | None:
    """Seconds until the store partition may be complete, from a refusal; None if unknown."""
    try:
        seconds = orjson.loads(problem)["seconds_left"]
    except (ValueError, KeyError, TypeError):
        return None
    return float(seconds) if type(seconds) in (int, float) and seconds >= 0 else None


def receive(
    read: Callable[[int], bytes],
    readline: Callable[[int], bytes],
    create: Callable[[str], Target],
    progress: Callable[[int], None] = lambda _: None,
    mac: Mac | None = None,
) -> int:
    """Write each file of a stream to `create(name)`. Returns the total number of bytes.

    `progress(bytes)` is called during the transfer. `mac`: of this stream; None without a cluster
    secret. Raises SnapshotError if the stream is incomplete, corrupt or not from the instance.
    """
    files = total = 0
    while True:
        line = readline(_MAX_HEADER_BYTES)
        if mac is not None:
            mac.add(line)
        try:
            header = orjson.loads(line)
            if "files" in header:
                if (header["files"], header["bytes"]) != (files, total):
                    raise SnapshotError(f"received {files} files, {total} bytes; expected {header}")
                if mac is not None and not mac.is_mac(readline(_MAX_HEADER_BYTES).strip()):
                    raise SnapshotError("its signature by the cluster secret is not valid")
                return total
            name, size = header["name"], header["size"]
        except (ValueError, KeyError, TypeError) as e:
            if isinstance(e, SnapshotError):
                raise
            raise SnapshotError(f"the stream is truncated after {files} files") from None
        is_name = isinstance(name, str) and _NAME.fullmatch(name)
        if not is_name or type(size) is not int or size < 0:
            raise SnapshotError(f"invalid file name or size: {name!r}, {size!r} bytes")
        if files >= _MAX_FILES:
            raise SnapshotError(f"the stream has more than {_MAX_FILES} files")
        target = create(name)
        try:
            digest = _receive_file(
                read,
                name,
                size,
                target,
                lambda n, base=total: progress(base + n),  # type: ignore[misc]
            )
        finally:
            target.close()
        if mac is not None:
            mac.add(digest)
        files, total = files + 1, total + size


def _receive_file(
    read: Callable[[int], bytes],
    name: str,
    size: int,
    target: Target,
    progress: Callable[[int], None],
) -> bytes:
    """Receives one file; returns its checksum."""
    digest = hashlib.sha256()
    left = size
    while left > 0:
        chunk = read(min(left, PIECE))
        if not chunk:
            raise SnapshotError(f"{name} is truncated: {left} bytes are missing")
        digest.update(chunk)
        target.write(chunk)
        left -= len(chunk)
        progress(size - left)
    expected = b""
    while len(expected) < _DIGEST_SIZE and (chunk := read(_DIGEST_SIZE - len(expected))):
        expected += chunk
    if expected != digest.digest():
        raise SnapshotError(f"{name} is corrupt: its checksum does not match")
    return expected
