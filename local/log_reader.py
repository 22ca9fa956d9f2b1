"""Reads a growing log file line by line, through rotation, truncation and restarts.

A file is known by its beginning (a digest of up to 256 bytes; the first line of an access log has a
request id and a time in it), not by its name or inode, which another file may get later.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 20
"""Most bytes that are read at a time, and the longest line that is not cut."""

_HEAD = 256


@dataclass(frozen=True, slots=True)
class Position:
    """All before ``offset`` is read, in the file whose first ``head_size`` bytes have the digest
    ``head``."""

    offset: int = 0
    head_size: int = 0
    head: str = ""

    @classmethod
    def load(cls, path: Path) -> Position | None:
        """What ``store`` wrote; None where there is nothing of the kind."""
        try:
            return cls(**json.loads(path.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def store(self, path: Path) -> None:
        """In place of what was there, at once."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_text(json.dumps(asdict(self)))
        beside.replace(path)


class LogReader:
    """Follows ``path``; a rotated file may have a name such as access.log.1 or access.log-20260102.

    What cannot be read any more is told by ``lost``: a line each for whoever watches.
    """

    def __init__(self, path: Path, position: Position | None, grace: float = 2.0) -> None:
        """``grace``: for so many seconds after it was rotated, the old file may still grow."""
        self._path = path
        self._grace = grace
        self._file: BinaryIO | None = None
        self._head = b""
        self._offset = 0
        self._quiet_since: float | None = None
        self._later: list[BinaryIO] = []
        self.lost: list[str] = []
        if position is not None:
            self._resume(position)

    @property
    def position(self) -> Position:
        """Behind the last line that ``lines`` gave."""
        digest = hashlib.sha256(self._head).hexdigest()
        return Position(self._offset, len(self._head), digest)

    def lines(self) -> list[bytes]:
        """The next whole lines, without their ends; none where there is nothing new yet."""
        if self._file is None and not self._open_next():
            return []
        assert self._file is not None
        if os.pread(self._file.fileno(), len(self._head), 0) != self._head:
            self._enter(self._file)  # truncated, and maybe written anew
        chunk = os.pread(self._file.fileno(), CHUNK, self._offset)
        end = chunk.rfind(b"\n") + 1
        if not end and len(chunk) == CHUNK:
            end = CHUNK  # a line without an end: it goes on its way in pieces
        if not end:
            self._look_around(len(chunk))
            return []
        self._quiet_since = None
        self._offset += end
        if len(self._head) < _HEAD:
            self._head = os.pread(self._file.fileno(), min(_HEAD, self._offset), 0)
        return chunk[:end].removesuffix(b"\n").split(b"\n")

    def close(self) -> None:
        for file in [self._file, *self._later]:
            if file is not None:
                file.close()
        self._file, self._later = None, []

    def _look_around(self, rest: int) -> None:
        """At the end of a file: is there another one by now?"""
        assert self._file is not None
        newest = self._later[-1] if self._later else self._file
        # a file that was renamed, and the next one is not there yet, is the newest still
        with suppress(FileNotFoundError):
            if not os.path.samestat(self._path.stat(), os.fstat(newest.fileno())):
                self._later.append(self._path.open("rb"))
        if not self._later:
            return
        # whoever writes may not have noticed yet
        now = time.monotonic()
        self._quiet_since = self._quiet_since or now
        if now - self._quiet_since >= self._grace:
            if rest:
                self.lost.append(f"a rotated file ends within a line: {rest} bytes left out")
            self._file.close()
            self._file = None

    def _open_next(self) -> bool:
        if self._later:
            self._enter(self._later.pop(0))
            return True
        try:
            self._enter(self._path.open("rb"))
        except FileNotFoundError:
            return False
        return True

    def _enter(self, file: BinaryIO) -> None:
        self._file, self._head, self._offset, self._quiet_since = file, b"", 0, None

    def _resume(self, position: Position) -> None:
        """The file that the position speaks of, and those that came after it."""
        rotated = re.compile(re.escape(self._path.name) + r"([.-]\d+)*")
        paths = [p for p in self._path.parent.glob("*") if rotated.fullmatch(p.name)]
        files: list[BinaryIO] = [path.open("rb") for path in sorted(paths, key=_age)]
        for number, file in enumerate(files):
            head = os.pread(file.fileno(), position.head_size, 0)
            if head and hashlib.sha256(head).hexdigest() == position.head:
                for older in files[:number]:
                    older.close()
                self._enter(file)
                self._head, self._offset = head, position.offset
                self._later = files[number + 1 :]
                return
        for file in files:
            file.close()
        if position.head_size:
            self.lost.append(
                f"the file that was read up to byte {position.offset} is gone; what came behind "
                f"that is not shipped. Going on with the start of {self._path}"
            )


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns
