"""Starts each process in its own session, and ends it with SIGTERM, then SIGKILL.

The pid *and* the start time identify a process of an earlier run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from local.errors import LocalError
from local.launcher import launched
from local.process_handles import PROC, Handle, handle_of_child, keeps_zombies


def spawn(
    command: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    die_with_parent: bool = True,
) -> subprocess.Popen[bytes]:
    """Starts a command in its own session, and appends its output to ``log``. Raises
    ``LocalError``.

    Because of the session, Ctrl-C reaches only this process, which then ends its children in order.
    With ``die_with_parent``, Linux sends the child SIGTERM when the *thread* that called this
    function ends: call it in a thread that lives as long as the child should.
    """
    words = launched(command, die_with_parent=die_with_parent)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )
    except OSError as error:
        raise LocalError(f"cannot start {command[0]}: {error}") from error


def end(process: subprocess.Popen[bytes], grace: float) -> int:
    """Ends a child of ``spawn`` like ``end_handle``, also if it is a zombie; returns its exit
    status."""
    if process.returncode is None:
        with contextlib.closing(handle_of_child(process)) as handle:
            end_handle(handle, process.pid, grace)
    elif not keeps_zombies():
        _kill_group(process.pid)
    return process.wait()


def end_handle(handle: Handle, pid: int, grace: float) -> None:
    """Sends SIGTERM, and SIGKILL after ``grace`` s; then SIGKILL to the rest of its process group.

    ``pid`` must be the leader of its process group, as after ``spawn``.
    """
    handle.send(signal.SIGTERM)
    # A stopped process (SIGSTOP) handles SIGTERM only after SIGCONT.
    handle.send(signal.SIGCONT)
    if not handle.has_ended(grace):
        handle.send(signal.SIGKILL)
        handle.has_ended(None)
    # The pid is not reused yet: the zombie, or the rest of its process group, still has it.
    _kill_group(pid)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def end_rest(pid: int, folder: Path) -> None:
    """Sends SIGKILL to the processes of ``has_rest``."""
    if has_rest(pid, folder):
        _kill_group(pid)


def has_rest(pid: int, folder: Path) -> bool:
    """Whether the process group of a child of ``spawn`` has processes after the child has ended.

    Only processes whose output is in a file of ``folder``, like that of the child, count: the
    leader of another group may have got the same pid since then. Without /proc, none counts.
    """
    for path in PROC.glob("[0-9]*"):
        try:
            group = (path / "stat").read_text().rpartition(")")[2].split()[2]
            if int(group) == pid and (path / "fd" / "1").readlink().is_relative_to(folder):
                return True
        except OSError:
            continue  # the process has ended, or belongs to another user
    return False


def how_it_ended(status: int) -> str:
    """An exit status in words: ``status 1`` or ``signal SIGKILL``."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
