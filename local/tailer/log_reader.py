"""Reads a growing log file line by line, through rotation, truncation and restarts.

The beginning of a file identifies it (a digest of up to 256 bytes; the first line of an access log
has a request id and a time). Its name or inode does not, because another file may get it later.
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

CHUNK_BYTES = 1 << 20
"""Maximum number of bytes in a read, and of a line that is not split."""

_HEAD_BYTES = 256


@dataclass(frozen=True, slots=True)
class Position:
    """An ``offset`` in the file whose first ``head_size`` bytes have the digest ``head``.

    ``changed_ns``: when that file was last written, in ns since 1970; the next file is not older.
    """

    offset: int = 0
    head_size: int = 0
    head: str = ""
    changed_ns: int = 0

    @classmethod
    def load(cls, path: Path) -> Position | None:
        """Reads the file that ``store`` wrote; None if it is missing or invalid."""
        try:
            return cls(**json.loads(path.read_text()), changed_ns=path.stat().st_mtime_ns)
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def store(self, path: Path) -> None:
        """Replaces the file atomically. The new file gets the modification time of the log file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        content = asdict(self)
        changed_ns = content.pop("changed_ns")
        temporary.write_text(json.dumps(content))
        os.utime(temporary, ns=(changed_ns, changed_ns))
        temporary.replace(path)


class LogReader:
    """Follows ``path``. Rotated files have names such as access.log.1 or access.log-20260102.

    ``lost`` has a message for each part that can no longer be read.
    """

    def __init__(self, path: Path, position: Position | None, grace: float = 2.0) -> None:
        """``grace``: seconds for which a rotated file may still grow."""
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
        """The position after the last line that ``lines`` returned."""
        digest = hashlib.sha256(self._head).hexdigest()
        changed_ns = os.fstat(self._file.fileno()).st_mtime_ns if self._file else 0
        return Position(self._offset, len(self._head), digest, changed_ns)

    def lines(self) -> list[bytes]:
        """The next complete lines, without line ends; an empty list if the log has not grown."""
        if self._file is None and not self._open_next():
            return []
        assert self._file is not None
        if os.pread(self._file.fileno(), len(self._head), 0) != self._head:
            self._enter(self._file)  # truncated, and possibly rewritten
        chunk = os.pread(self._file.fileno(), CHUNK_BYTES, self._offset)
        end = chunk.rfind(b"\n") + 1
        if not end and len(chunk) == CHUNK_BYTES:
            end = CHUNK_BYTES  # a line without an end is returned in pieces
        if not end:
            self._find_next(len(chunk))
            return []
        self._quiet_since = None
        self._offset += end
        if len(self._head) < _HEAD_BYTES:
            self._head = os.pread(self._file.fileno(), min(_HEAD_BYTES, self._offset), 0)
        return chunk[:end].removesuffix(b"\n").split(b"\n")

    def close(self) -> None:
        for file in [self._file, *self._later]:
            if file is not None:
                file.close()
        self._file, self._later = None, []

    def _find_next(self, rest: int) -> None:
        """Looks for the next file at the end of this one. ``rest``: bytes of its last line."""
        assert self._file is not None
        newest = self._later[-1] if self._later else self._file
        # If the file was renamed and the next one does not exist yet, it is still the newest.
        with suppress(FileNotFoundError):
            if not os.path.samestat(self._path.stat(), os.fstat(newest.fileno())):
                self._later.append(self._path.open("rb"))
        if not self._later:
            return
        # The writer may not have reopened its log yet.
        now = time.monotonic()
        self._quiet_since = self._quiet_since or now
        if now - self._quiet_since >= self._grace:
            if rest:
                self.lost.append(f"a rotated file ends within a line: {rest} bytes skipped")
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
        """Opens the file of the position and the newer files. If that file is gone, only those."""
        paths = self._rotated(compressed=False)
        files: list[BinaryIO] = [path.open("rb") for path in paths]
        for number, file in enumerate(files):
            head = os.pread(file.fileno(), position.head_size, 0)
            if head and hashlib.sha256(head).hexdigest() == position.head:
                for older in files[:number]:
                    older.close()
                self._enter(file)
                self._head, self._offset = head, position.offset
                self._later = files[number + 1 :]
                return
        # A file with the same time is read, too: lines that are read twice are counted once.
        newer = [path for path in paths if _age(path) >= position.changed_ns]
        for path, file in zip(paths, files, strict=True):
            if position.head_size and path in newer:
                self._later.append(file)
            else:
                file.close()
        if position.head_size:
            self.lost.append(self._lost(position, newer))

    def _lost(self, position: Position, newer: list[Path]) -> str:
        """Why the file of the position cannot be read, and where reading continues."""
        compressed = [
            path.name
            for path in self._rotated(compressed=True)
            if _age(path) >= position.changed_ns
        ]
        return (
            f"the log file that was read up to byte {position.offset} no longer exists, or is "
            "compressed; its further lines are lost, as are those of later files that are gone. "
            + (f"Files with such lines: {', '.join(compressed)}. " if compressed else "")
            + f"Continuing at the start of {newer[0] if newer else self._path}"
        )

    def _rotated(self, *, compressed: bool) -> list[Path]:
        """The log file and the rotated files, or only the compressed ones; the oldest is first."""
        end = r"\.[a-z]\w*" if compressed else ""
        name = re.compile(re.escape(self._path.name) + r"([.-]\d+)*" + end)
        return sorted((p for p in self._path.parent.glob("*") if name.fullmatch(p.name)), key=_age)


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns
