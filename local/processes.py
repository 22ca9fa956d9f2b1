"""Starts each process in its own session, and ends it with SIGTERM, then SIGKILL.

The pid *and* the start time identify a process of an earlier run. A pidfd is used to signal it and
to wait for it, so another process that gets the same pid later is never affected.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from local.errors import LocalError


def spawn(
    command: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    die_with_parent: bool = True,
) -> subprocess.Popen[bytes]:
    """Starts a command in its own session, and appends its output to ``log``. ``LocalError``.

    Because of the session, Ctrl-C reaches only this process, which then ends its children in order.
    With ``die_with_parent`` the kernel sends the child SIGTERM when the *thread* that called this
    function ends (prctl(2), PR_SET_PDEATHSIG): call it in a thread that lives as long as the child
    should. ``setpriv`` of util-linux sets this. If it is missing, pid files identify orphans.

    The command starts with the default action for each signal. Otherwise it would inherit ignored
    signals: SIGINT if a script started this process with ``&``, SIGHUP after ``nohup``.
    """
    words = ["env", "--default-signal", *command]
    if die_with_parent and (setpriv := shutil.which("setpriv")):
        words = [setpriv, "--pdeathsig", "TERM", "--", *words]
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


def exit_status(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status of a child of ``spawn``; None while it runs. It stays a zombie, so that the
    pid is not reused before ``end`` has ended the rest of its process group."""
    if process.returncode is not None:
        return process.returncode
    info = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if info is None:
        return None
    return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status


def end(process: subprocess.Popen[bytes], grace: float) -> int:
    """Ends a child of ``spawn`` like ``end_pidfd``, also if it is a zombie; returns its exit
    status."""
    if process.returncode is None:
        pidfd = os.pidfd_open(process.pid)
        try:
            end_pidfd(pidfd, process.pid, grace)
        finally:
            os.close(pidfd)
    return process.wait()


def end_pidfd(pidfd: int, pid: int, grace: float) -> None:
    """Sends SIGTERM, and SIGKILL after ``grace`` s; then SIGKILL to the rest of its process group.

    ``pid`` must be the leader of its process group, as after ``spawn``.
    """
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        # A stopped process (SIGSTOP) handles SIGTERM only after SIGCONT.
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    if not _has_ended(pidfd, grace):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        _has_ended(pidfd, None)
    # The pid is not reused yet: the zombie, or the rest of its process group, still has it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def end_rest(pid: int, folder: Path) -> None:
    """Sends SIGKILL to the processes of ``has_rest``."""
    if has_rest(pid, folder):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def has_rest(pid: int, folder: Path) -> bool:
    """Whether the process group of a child of ``spawn`` has processes after the child has ended.

    Only processes whose output is in a file of ``folder``, like that of the child, count: the
    leader of another group may have got the same pid since then.
    """
    for path in Path("/proc").glob("[0-9]*"):
        try:
            group = (path / "stat").read_text().rpartition(")")[2].split()[2]
            if int(group) == pid and (path / "fd" / "1").readlink().is_relative_to(folder):
                return True
        except OSError:
            continue  # the process has ended, or belongs to another user
    return False


def _has_ended(pidfd: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1000))


def open_if_same(pid: int, started: str) -> int | None:
    """A pidfd of process ``pid`` if its ``start_time`` is ``started``; otherwise None."""
    try:
        pidfd = os.pidfd_open(pid)
    except (ProcessLookupError, PermissionError, OSError):
        return None
    # Check after opening the pidfd: if the start time matches now, the pidfd is that process's.
    if start_time(pid) != started or _has_ended(pidfd, 0):
        os.close(pidfd)
        return None
    return pidfd


def start_time(pid: int) -> str | None:
    """The start time of a process, unique together with its pid; None if it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # proc(5): the command's name, in parentheses, may have any text; start time is field 22.
    return f"{_boot_id()}:{stat.rpartition(')')[2].split()[19]}"


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def how_it_ended(status: int) -> str:
    """An exit status in words: ``status 1`` or ``signal SIGKILL``."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
