"""What a view's query was doing, from its checkpoint folder and the files of its topic.

Spark writes `offsets/N` before a micro-batch, a file of each store of its state in it, and
`commits/N` after it. It reads and writes no other files, so the folder tells the phase after a
kill exactly. Each task writes to Kafka first and then commits its state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

_JUST_WRITTEN = 0.02  # s


class Phase(StrEnum):
    """A micro-batch runs in all phases but the first two."""

    STARTING = "starting"
    IDLE = "between micro-batches"
    OFFSET_LOG = "offset log"
    COMPUTING = "computing"
    WRITING = "writing"
    STATE_COMMIT = "state commit"
    COMMIT_LOG = "commit log"

    @property
    def in_batch(self) -> bool:
        return self not in (Phase.STARTING, Phase.IDLE)


def phase(checkpoint: Path, topic_files: list[Path], now: float | None = None) -> Phase:
    """`topic_files`: the folders of the view topic's partitions in the broker's data."""
    now = time.time() if now is None else now
    started, starts = _log(checkpoint / "offsets")
    committed, commits = _log(checkpoint / "commits")
    if starts:
        return Phase.OFFSET_LOG
    if commits:
        return Phase.COMMIT_LOG
    if started is None:
        return Phase.STARTING
    if started == committed:
        recent = now - _modified(checkpoint / "commits" / str(committed)) < _JUST_WRITTEN
        return Phase.COMMIT_LOG if recent else Phase.IDLE
    began = _modified(checkpoint / "offsets" / str(started))
    if now - began < _JUST_WRITTEN:
        return Phase.OFFSET_LOG
    done = [_has_version(store, started + 1) for store in _stores(checkpoint / "state")]
    if any(done):
        return Phase.COMMIT_LOG if all(done) else Phase.STATE_COMMIT
    written = max((_modified(file) for each in topic_files for file in _files(each)), default=0.0)
    return Phase.WRITING if written > began else Phase.COMPUTING


def finished(checkpoint: Path) -> int:
    """The number of the last micro-batch that is committed; -1 if there is none."""
    committed, _ = _log(checkpoint / "commits")
    return -1 if committed is None else committed


def _log(folder: Path) -> tuple[int | None, bool]:
    """The last entry of a log of Spark, and whether another one is being written."""
    names = [entry.name for entry in _entries(folder)]
    numbers = [int(name) for name in names if name.isdigit()]
    last = max(numbers, default=None)
    temporary = [name for name in names if name.startswith(".") and name.endswith(".tmp")]
    return last, any(_number(name) > (-1 if last is None else last) for name in temporary)


def _number(temporary: str) -> int:
    """The entry of a temporary file such as `.12.8f7a.tmp`; one that was left over is older."""
    number = temporary[1:].partition(".")[0]
    return int(number) if number.isdigit() else -1


def _stores(state: Path) -> Iterator[Path]:
    """The folders `state/operator/partition` or, if an operator has several, those within."""
    for operator in _entries(state):
        for partition in _entries(Path(operator.path)):
            if partition.name.isdigit():
                yield Path(partition.path)


def _has_version(store: Path, version: int) -> bool:
    """`7.delta`, `7.changelog`, `7_id.zip` or the like."""
    return any(
        entry.name.replace("_", ".").partition(".")[0] == str(version) for entry in _entries(store)
    )


def _files(folder: Path) -> list[Path]:
    return [Path(e.path) for e in _entries(folder) if e.name.endswith(".log")]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _modified(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
