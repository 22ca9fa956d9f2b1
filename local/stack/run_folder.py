"""The run folder of a stack: its lock, and the processes that run in it."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from local.errors import LocalError
from local.stack import supervisor
from local.stack.ownership import claim


def ending_order(names: Iterable[str]) -> list[list[str]]:
    """Groups of children that end together. The broker is last, because the others need it."""
    rest = list(names)
    broker = [name for name in rest if name == "broker"]
    return [[name for name in rest if name not in broker], broker]


def lock(run_dir: Path) -> IO[str]:
    """Locks the run folder until the file is closed or this process ends. Raises ``LocalError``."""
    try:
        claim(run_dir)
        file = (run_dir / "lock").open("w")
    except OSError as error:
        raise LocalError(
            f"cannot write {run_dir}: {error.strerror or error}. "
            "Make it writable, or name another folder with QUERYABLE_RUN_DIR."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise LocalError(
            f"another `make demo`, `make up` or `queryable serve` uses {run_dir}. Stop it first, "
            "or use another folder (QUERYABLE_RUN_DIR) and other ports."
        ) from None
    return file


def background_marker(run_dir: Path) -> Path:
    """The file that distinguishes a stack of ``make up`` from the orphans of a crashed run. It has
    the names of the stack's processes, one per line; the file of an older version has none."""
    return run_dir / "in-background"


def running_in_background(run_dir: Path) -> list[str]:
    """The names of the processes of ``make up`` in this folder."""
    return list(supervisor.recorded(run_dir)) if background_marker(run_dir).exists() else []


def ended_in_background(run_dir: Path) -> list[str]:
    """The names of the processes of ``make up`` in this folder that have ended by themselves."""
    try:
        started = background_marker(run_dir).read_text().split()
    except FileNotFoundError:
        return []
    processes = supervisor.recorded(run_dir)
    return sorted(
        name
        for name in started
        if name not in processes or not supervisor.is_running(processes[name])
    )


def end_orphans(run_dir: Path, report: Callable[[str], None]) -> None:
    """Ends the orphans of a crashed run. Raises ``LocalError`` if they are a stack of ``make
    up``."""
    running = supervisor.recorded(run_dir)
    if not running:
        background_marker(run_dir).unlink(missing_ok=True)
        return
    if background_marker(run_dir).exists():
        raise LocalError(
            f"a stack is running in the background ({', '.join(running)}): `make down` stops it."
        )
    report(f"stopping processes of an earlier run: {', '.join(running)}")
    for names in ending_order(running):
        supervisor.stop_recorded(run_dir, names)


def stop_background(run_dir: Path) -> list[str]:
    """Ends a stack of ``make up``, or orphans; returns the names of the ended processes."""
    with contextlib.closing(lock(run_dir)):
        running = list(supervisor.recorded(run_dir))
        for names in ending_order(running):
            supervisor.stop_recorded(run_dir, names)
        background_marker(run_dir).unlink(missing_ok=True)
        return running
