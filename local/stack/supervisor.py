"""Starts, watches and ends the processes of a stack.

The run folder has ``logs/<name>.log`` (new with each start) and ``<name>.pid``: JSON with pid,
start time and grace period, so that a later command finds the processes of an earlier one.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from local.errors import LocalError, tail
from local.process_handles import exit_status, open_if_same, start_time
from local.processes import end, end_handle, end_rest, has_rest, how_it_ended, spawn
from local.settings import absolute_paths
from local.waiting import wait_until

GRACE = 15.0
"""Seconds from SIGTERM to SIGKILL."""


@dataclass(frozen=True, slots=True)
class PidFile:
    """The content of a pid file."""

    pid: int
    started: str
    grace: float


@dataclass(frozen=True, slots=True)
class Child:
    """A process of the stack; ``log_start``: offset in its log where this run begins."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int
    grace: float

    def last_lines(self) -> str:
        """The end of its log, for an error message."""
        with self.log.open("rb") as file:
            file.seek(self.log_start)
            return tail(file.read().decode(errors="replace"))


def _inherited() -> dict[str, str]:
    """The environment of children: without the token of this process, which they do not need. Its
    paths are absolute, because they run in other folders."""
    needed = {name: value for name, value in os.environ.items() if name != "QUERYABLE_TOKEN"}
    return needed | absolute_paths(needed)


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
        """Starts a child in its own session; ``env`` is added to the environment."""
        log = self._run_dir / "logs" / f"{name}.log"
        log.unlink(missing_ok=True)
        process = spawn(
            command,
            log,
            env={**_inherited(), **(env or {})},
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
        """Takes over a process that ``spawn`` started elsewhere."""
        child = Child(name, process, log, log_start, grace)
        self._children[name] = child
        pid_file = PidFile(process.pid, start_time(process.pid) or "", grace)
        self._pid_path(name).write_text(json.dumps(asdict(pid_file)))
        return child

    def exits(self) -> dict[str, str]:
        """Children that ended by themselves: name ► exit status and last log lines, as text."""
        return {
            child.name: f"{child.name} ended with {how_it_ended(status)}; "
            f"last lines of {child.log}:\n{child.last_lines()}"
            for child in self._children.values()
            if (status := exit_status(child.process)) is not None
        }

    def check(self) -> None:
        """Raises ``LocalError`` if a child has ended by itself."""
        if exits := self.exits():
            raise LocalError("\n".join(exits.values()))

    def wait_until(
        self, condition: Callable[[], bool], timeout: float, what: str, interval: float = 0.1
    ) -> None:
        """Returns when ``condition`` holds. Raises ``LocalError`` if a child ends or after
        ``timeout`` s."""

        def holds() -> bool:
            if condition():
                return True
            self.check()
            return False

        wait_until(holds, timeout, f"{what} (logs: {self._run_dir / 'logs'})", interval)

    def stop(self, names: Iterable[str]) -> None:
        """Ends these children, in parallel; returns when all have ended."""
        ending = [self._children[name] for name in names if name in self._children]
        with ThreadPoolExecutor(max(1, len(ending))) as threads:
            list(threads.map(lambda child: end(child.process, child.grace), ending))
        for child in ending:
            self._pid_path(child.name).unlink(missing_ok=True)
            del self._children[child.name]

    def release(self) -> None:
        """Lets the children continue; their pid files identify them."""
        self._children.clear()

    def _pid_path(self, name: str) -> Path:
        return self._run_dir / f"{name}.pid"


def recorded(run_dir: Path) -> dict[str, PidFile]:
    """The running processes of pid files, by name; removes all other pid files. A process that has
    ended counts while others of its process group run, such as nginx's workers."""
    processes = {}
    for path in sorted(run_dir.glob("*.pid")):
        try:
            pid_file = PidFile(**json.loads(path.read_text()))
        except (ValueError, TypeError):
            path.unlink(missing_ok=True)
            continue
        if is_running(pid_file) or has_rest(pid_file.pid, run_dir.resolve()):
            processes[path.stem] = pid_file
        else:
            path.unlink(missing_ok=True)
    return processes


def is_running(pid_file: PidFile) -> bool:
    """Whether the process itself runs."""
    handle = open_if_same(pid_file.pid, pid_file.started)
    if handle is None:
        return False
    handle.close()
    return True


def stop_recorded(run_dir: Path, names: Iterable[str]) -> list[str]:
    """Ends these processes of pid files, in parallel; returns the names of those that ran."""
    running = recorded(run_dir)
    ending = [name for name in names if name in running]
    with ThreadPoolExecutor(max(1, len(ending))) as threads:
        list(threads.map(lambda name: _end_recorded(running[name], run_dir), ending))
    for name in ending:
        (run_dir / f"{name}.pid").unlink(missing_ok=True)
    return ending


def _end_recorded(pid_file: PidFile, run_dir: Path) -> None:
    handle = open_if_same(pid_file.pid, pid_file.started)
    if handle is None:
        end_rest(pid_file.pid, run_dir.resolve())
        return
    with closing(handle):
        end_handle(handle, pid_file.pid, pid_file.grace)
