"""The temporary folders of jobs, in processes of their own that need no Spark."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from spark.errors import JobError
from spark.processes.temporary_files import temporary_folder

# It ends when its input is closed.
HOLDER = """
import sys
from spark.processes.temporary_files import temporary_folder
with temporary_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""
WAITING = "import sys; sys.stdin.read()"


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def python(processes: ExitStack, *arguments: str) -> subprocess.Popen[str]:
    process = processes.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    processes.callback(process.kill)
    return process


def holder(processes: ExitStack) -> tuple[subprocess.Popen[str], Path]:
    """A process with a temporary folder that is not empty."""
    process = python(processes, HOLDER)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    (folder / "blockmgr-1").mkdir()
    (folder / "blockmgr-1" / "file").touch()
    return process, folder


def test_a_folder_is_deleted_at_the_end_of_its_process(parent: Path, processes: ExitStack) -> None:
    process, folder = holder(processes)
    assert folder.parent == parent
    process.communicate("", timeout=30)
    assert process.returncode == 0
    assert list(parent.iterdir()) == []


def test_only_folders_of_killed_processes_are_deleted(parent: Path, processes: ExitStack) -> None:
    """Regression: they stayed until the machine was started again, each with some 60 MB."""
    killed, abandoned = holder(processes)
    running, in_use = holder(processes)
    orphaned, of_java = holder(processes)
    # Java outlives the process that has started it for a moment
    java = python(processes, WAITING, f"-Djava.io.tmpdir={of_java}")
    others = [parent / "queryable-push-1", parent / "spark-1"]
    for folder in others:
        folder.mkdir()
    (parent / "queryable-spark-link").symlink_to(others[0])
    (parent / "queryable-spark-file").touch()
    for process in (killed, orphaned):
        process.kill()
        process.wait()
    with temporary_folder() as own:
        kept = {own, in_use, of_java, *others}
        assert {
            each for each in parent.iterdir() if each.is_dir() and not each.is_symlink()
        } == kept
        assert not abandoned.exists()
        assert (in_use / "blockmgr-1" / "file").exists()
    java.kill()
    java.wait()
    with temporary_folder():
        assert not of_java.exists()
    assert running.poll() is None


def test_a_folder_that_cannot_be_made_is_named(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(parent / "missing"))
    with pytest.raises(JobError, match="TMPDIR"), temporary_folder():
        pass
