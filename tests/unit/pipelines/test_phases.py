"""The phase of a query, from folders like those that Spark writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.pipelines.phases import Phase, finished, phase

NOW = 1_800_000_000.0


def write(file: Path, seconds_ago: float = 5.0) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    os.utime(file, (NOW - seconds_ago, NOW - seconds_ago))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Micro-batches 0 and 1 are finished, 2 has begun. The state has two stores."""
    for number in (0, 1):
        write(tmp_path / "commits" / str(number))
        for store in ("0/0", "0/1"):
            write(tmp_path / "state" / store / f"{number + 1}.delta")
    for number in (0, 1, 2):
        write(tmp_path / "offsets" / str(number))
    write(tmp_path / "state" / "0" / "_metadata" / "v2" / "3")
    write(tmp_path / "topic-0" / "00000000000000000000.log", 6)
    return tmp_path


def found(checkpoint: Path) -> Phase:
    return phase(checkpoint, [checkpoint / "topic-0", checkpoint / "topic-1"], NOW)


def test_a_query_without_files_is_starting(tmp_path: Path) -> None:
    assert phase(tmp_path / "nothing", [], NOW) is Phase.STARTING
    assert not Phase.STARTING.in_batch
    assert finished(tmp_path / "nothing") == -1


def test_a_micro_batch_computes_until_it_writes(checkpoint: Path) -> None:
    assert found(checkpoint) is Phase.COMPUTING
    write(checkpoint / "topic-1" / "00000000000000000042.log", 1)
    assert found(checkpoint) is Phase.WRITING
    assert finished(checkpoint) == 1


@pytest.mark.parametrize("file", ["3.delta", "3.changelog", "3_7f3a.zip"])
def test_a_micro_batch_commits_its_state_store_by_store(checkpoint: Path, file: str) -> None:
    write(checkpoint / "topic-0" / "00000000000000000000.log", 1)
    write(checkpoint / "state/0/1/.3.delta.7f.tmp")
    assert found(checkpoint) is Phase.WRITING
    write(checkpoint / "state/0/1" / file)
    assert found(checkpoint) is Phase.STATE_COMMIT
    write(checkpoint / "state/0/0" / file)
    assert found(checkpoint) is Phase.COMMIT_LOG


def test_entries_of_the_logs_that_are_being_written(checkpoint: Path) -> None:
    write(checkpoint / "commits" / ".2.7f3a.tmp")
    assert found(checkpoint) is Phase.COMMIT_LOG
    write(checkpoint / "commits" / "2")  # the temporary file was left over by a kill
    assert found(checkpoint) is Phase.IDLE
    assert not Phase.IDLE.in_batch
    write(checkpoint / "offsets" / ".3.7f3a.tmp")
    assert found(checkpoint) is Phase.OFFSET_LOG


def test_entries_of_the_logs_that_were_just_written(checkpoint: Path) -> None:
    write(checkpoint / "offsets" / "2", 0.01)
    assert found(checkpoint) is Phase.OFFSET_LOG
    write(checkpoint / "commits" / "2", 0.01)
    assert found(checkpoint) is Phase.COMMIT_LOG
