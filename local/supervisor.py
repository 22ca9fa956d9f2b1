"""Starts, watches and ends the processes of a stack.

Under the run folder: ``logs/<name>.log`` (new with every start) and ``<name>.pid``, JSON with pid,
start time and grace, by which a later command finds what an earlier one left running.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from local.errors import LocalError, tail
from local.processes import end, end_pidfd, how_it_ended, open_if_same, spawn, start_time
from local.waiting import wait_until

GRACE = 15.0
"""Seconds from SIGTERM to SIGKILL."""


@dataclass(frozen=True, slots=True)
class PidFile:
    """What a pid file tells."""

    pid: int
    started: str
    grace: float


@dataclass(frozen=True, slots=True)
class Child:
    """A process of ours; ``log_start`` is where in its log this run begins."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int
    grace: float

    def last_lines(self) -> str:
        """The end of what it logged, for an error message."""
        with self.log.open("rb") as file:
            file.seek(self.log_start)
            return tail(file.read().decode(errors="replace"))


class Supervisor:
    """The children of one stack, by name, in the order of their start."""

    def __init__(self, run_dir: Path, *, die_with_parent: bool = True) -> None:
        self._run_dir = run_dir
        self._die_with_parent = die_with_parent
        self._children: dict[str, Child] = {}

    @property
    def children(self) -> Mapping[str, Child]:
        return self._children

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        grace: float = GRACE,
    ) -> Child:
        """Starts a child in a session of its own; ``env`` is added to our own environment."""
        log = self._run_dir / "logs" / f"{name}.log"
        log.unlink(missing_ok=True)
        process = spawn(
            command,
            log,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            die_with_parent=self._die_with_parent,
        )
        return self.adopt(name, process, log, grace=grace)

    def adopt(
        self,
        name: str,
        process: subprocess.Popen[bytes],
        log: Path,
        *,
        log_start: int = 0,
        grace: float = GRACE,
    ) -> Child:
        """Takes over a process that was made by ``spawn`` elsewhere."""
        child = Child(name, process, log, log_start, grace)
        self._children[name] = child
        pid_file = PidFile(process.pid, start_time(process.pid) or "", grace)
        self._pid_path(name).write_text(json.dumps(asdict(pid_file)))
        return child

    def obituaries(self) -> dict[str, str]:
        """Of every child that has ended by itself: its name, and how, with its last log lines."""
        return {
            child.name: f"{child.name} ended with {how_it_ended(status)}; "
            f"last lines of {child.log}:\n{child.last_lines()}"
            for child in self._children.values()
            if (status := child.process.poll()) is not None
        }

    def check(self) -> None:
        """``LocalError`` that names what has ended by itself."""
        if obituaries := self.obituaries():
            raise LocalError("\n".join(obituaries.values()))

    def wait_until(
        self, condition: Callable[[], bool], timeout: float, what: str, interval: float = 0.1
    ) -> None:
        """Returns when ``condition`` holds; ``LocalError`` when a child dies or time is up."""

        def holds() -> bool:
            if condition():
                return True
            self.check()
            return False

        wait_until(holds, timeout, f"{what} (logs: {self._run_dir / 'logs'})", interval)

    def stop(self, names: Iterable[str]) -> None:
        """Ends these children, all at once; returns when all have ended."""
        ending = [self._children[name] for name in names if name in self._children]
        with ThreadPoolExecutor(max(1, len(ending))) as threads:
            list(threads.map(lambda child: end(child.process, child.grace), ending))
        for child in ending:
            self._pid_path(child.name).unlink(missing_ok=True)
            del self._children[child.name]

    def release(self) -> None:
        """Leaves the children running on their own, known by their pid files."""
        self._children.clear()

    def _pid_path(self, name: str) -> Path:
        return self._run_dir / f"{name}.pid"


def recorded(run_dir: Path) -> dict[str, PidFile]:
    """The processes of pid files that still run, by name; other pid files are removed."""
    found = {}
    for path in sorted(run_dir.glob("*.pid")):
        try:
            pid_file = PidFile(**json.loads(path.read_text()))
        except (ValueError, TypeError):
            path.unlink(missing_ok=True)
            continue
        pidfd = open_if_same(pid_file.pid, pid_file.started)
        if pidfd is None:
            path.unlink(missing_ok=True)
        else:
            os.close(pidfd)
            found[path.stem] = pid_file
    return found


def stop_recorded(run_dir: Path, names: Iterable[str]) -> list[str]:
    """Ends these processes of pid files, all at once; the names of those that were running."""
    running = recorded(run_dir)
    ending = [name for name in names if name in running]
    with ThreadPoolExecutor(max(1, len(ending))) as threads:
        list(threads.map(lambda name: _end_recorded(running[name]), ending))
    for name in ending:
        (run_dir / f"{name}.pid").unlink(missing_ok=True)
    return ending


def _end_recorded(pid_file: PidFile) -> None:
    pidfd = open_if_same(pid_file.pid, pid_file.started)
    if pidfd is not None:
        try:
            end_pidfd(pidfd, pid_file.pid, pid_file.grace)
        finally:
            os.close(pidfd)
