"""The processes of a job: they share its session, also if a parent of theirs has died."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_JVM = "org.apache.spark.deploy.SparkSubmit"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_WORKER = "pyspark.daemon"


class Process(NamedTuple):
    pid: int
    parent: int
    command: str


class Processes(NamedTuple):
    """`workers` are Python processes that run the views' Python code, with their parent, the
    daemon, from which Spark forks them."""

    jvms: list[Process]
    executors: list[Process]
    daemons: list[Process]
    workers: list[Process]


def processes_of(session: int) -> Processes:
    """The living processes of a session, by role."""
    found = list(in_session(session))
    python = [each for each in found if _WORKER in each.command]
    daemons = _oldest(python)
    return Processes(
        jvms=_oldest([each for each in found if _JVM in each.command]),
        executors=_oldest([each for each in found if _EXECUTOR in each.command]),
        daemons=daemons,
        workers=[each for each in python if each not in daemons],
    )


def _oldest(processes: list[Process]) -> list[Process]:
    """Without the children of others. Until it has its own program, a process that was forked has
    the command of its parent."""
    pids = {each.pid for each in processes}
    return [each for each in processes if each.parent not in pids]


def in_session(session: int) -> Iterator[Process]:
    """The living processes of a session."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            stat = Path(entry.path, "stat").read_text()
            # proc(5): the command's name, in parentheses, may have any text
            state, parent, _, of_session = stat.rpartition(")")[2].split()[:4]
            if int(of_session) == session and state not in "ZX":
                command = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ").decode()
                yield Process(int(entry.name), int(parent), command)


def kill(process: Process) -> None:
    """Sends SIGKILL, if the process still exists."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
