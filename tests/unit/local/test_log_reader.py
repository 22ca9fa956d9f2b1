"""A growing log: incomplete lines, rotation, truncation, restarts."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.tailer.log_reader import CHUNK_BYTES, LogReader, Position


def line(number: int) -> bytes:
    return json.dumps({"request_id": f"{number:032x}", "uri": "/x" * 200}).encode()


def at(path: Path, seconds: int) -> None:
    """Sets the time of the last change, from now."""
    changed = time.time() + seconds
    os.utime(path, (changed, changed))


def compress(path: Path) -> Path:
    """As gzip does. Returns the new path."""
    compressed = path.with_name(f"{path.name}.gz")
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return compressed


class Log:
    """A log with its writer and its reader."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "access.log"
        self.reader = LogReader(self.path, None, grace=0)

    def write(self, *numbers: int, path: Path | None = None) -> None:
        with (path or self.path).open("ab") as file:
            file.writelines(line(number) + b"\n" for number in numbers)

    def rotate(self, name: str) -> Path:
        rotated = self.path.with_name(name)
        self.path.rename(rotated)
        return rotated

    def read(self) -> list[int]:
        """Reads all lines; often enough to detect a rotation."""
        found: list[bytes] = []
        for _ in range(6):
            found += self.reader.lines()
        return [int(json.loads(each)["request_id"], 16) for each in found]

    def restart(self, folder: Path) -> None:
        self.reader.position.store(folder / "position.json")
        self.reader.close()
        self.reader = LogReader(self.path, Position.load(folder / "position.json"), grace=0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    yield made
    made.reader.close()


def test_complete_lines_are_returned_once(log: Log) -> None:
    assert log.read() == []  # the file does not exist yet
    log.write(1, 2)
    assert log.read() == [1, 2]
    with log.path.open("ab") as file:
        file.write(line(3)[:50])
        file.flush()
        assert log.read() == []
        file.write(line(3)[50:] + b"\n" + line(4)[:10])
    assert log.read() == [3]
    assert log.reader.lost == []


def test_a_rotated_file_is_read_to_its_end(log: Log) -> None:
    log.write(1)
    assert log.read() == [1]
    rotated = log.rotate("access.log.1")
    log.write(2, path=rotated)  # the writer has not reopened its log yet
    assert log.read() == [2]
    log.write(3, path=rotated)
    log.write(4)
    assert log.read() == [3, 4]
    log.write(5)
    assert log.read() == [5]


def test_a_rotated_file_may_grow_during_the_grace_period(log: Log) -> None:
    log.reader = LogReader(log.path, None, grace=60)
    log.write(1)
    assert log.read() == [1]
    rotated = log.rotate("access.log.1")
    log.write(3)
    assert log.read() == []
    log.write(2, path=rotated)
    assert log.read() == [2]


def test_a_truncated_file_is_read_from_its_start(log: Log) -> None:
    log.write(1, 2, 3)
    assert log.read() == [1, 2, 3]
    log.path.write_bytes(b"")
    log.write(4)
    assert log.read() == [4]
    # rewritten, and longer than before
    log.path.write_bytes(b"")
    log.write(5, 6, 7)
    assert log.read() == [5, 6, 7]


def test_a_restart_continues_at_the_position(log: Log, tmp_path: Path) -> None:
    log.write(1, 2)
    assert log.read() == [1, 2]
    log.restart(tmp_path)
    log.write(3)
    assert log.read() == [3]


def test_a_restart_reads_files_that_were_rotated_in_between(log: Log, tmp_path: Path) -> None:
    log.write(1)
    assert log.read() == [1]
    log.write(2)
    log.rotate("access.log-20260101")
    log.write(3)
    log.rotate("access.log.1")
    log.write(4)
    log.restart(tmp_path)
    assert log.read() == [2, 3, 4]
    assert log.reader.lost == []
    log.write(5)
    assert log.read() == [5]


def test_a_lost_file_is_reported(log: Log, tmp_path: Path) -> None:
    log.write(1)
    assert log.read() == [1]
    log.path.unlink()
    log.write(2)  # the file may have the same inode
    log.restart(tmp_path)
    assert log.read() == [2]
    [lost] = log.reader.lost
    assert f"up to byte {len(line(1)) + 1} no longer exists" in lost


def test_files_after_a_lost_one_are_read(log: Log, tmp_path: Path) -> None:
    """logrotate with ``delaycompress``: only the newest rotated file is not compressed."""
    log.write(1)
    at(log.rotate("access.log-20260101"), -60)
    log.write(2)
    log.reader = LogReader(log.path, None, grace=0)
    assert log.read() == [2]
    log.write(3)
    at(compress(log.rotate("access.log.3")), 1)
    log.write(4)
    at(compress(log.rotate("access.log.2")), 2)
    log.write(5)
    at(log.rotate("access.log.1"), 3)
    log.write(6)
    at(log.path, 4)
    log.restart(tmp_path)
    assert log.read() == [5, 6]
    [lost] = log.reader.lost
    assert "Files with such lines: access.log.3.gz, access.log.2.gz" in lost
    assert lost.endswith("Continuing at the start of " + str(tmp_path / "access.log.1"))
    log.write(7)
    assert log.read() == [7]


def test_an_invalid_position_file_is_ignored(tmp_path: Path) -> None:
    for content in ("", "{", "[]", '{"offset": 5, "x": 1}'):
        (tmp_path / "position.json").write_text(content)
        assert Position.load(tmp_path / "position.json") is None
    assert Position.load(tmp_path / "none") is None


def test_a_line_without_end_is_returned_in_pieces(log: Log) -> None:
    log.path.write_bytes(b"x" * (CHUNK_BYTES + 10) + b"\n" + line(1) + b"\n")
    pieces = [*log.reader.lines(), *log.reader.lines()]
    assert [len(piece) for piece in pieces[:2]] == [CHUNK_BYTES, 10]
    assert pieces[2] == line(1)
