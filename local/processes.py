"""Single processes: started apart from the terminal, ended politely, then for good.

A process that somebody else started is known by its pid *and* its start time, and is waited for and
signalled through a pidfd: never a stranger that was given the same pid later.
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
    """Starts a command in a session of its own, its output appended to ``log``.

    In a session of its own, so that Ctrl-C reaches only us, and we choose the order of the ending.
    With ``die_with_parent`` the kernel sends it SIGTERM when the *thread* that called this ends
    (prctl(2), PR_SET_PDEATHSIG): call it from a thread that lives as long as the child should.
    ``setpriv`` of util-linux sets that; where it is missing, orphans are left to their pid files.

    The command begins with the default action for every signal. Without that it would ignore what
    we ignore: SIGINT if a script started us with ``&``, SIGHUP if ``nohup`` did.
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


def end(process: subprocess.Popen[bytes], grace: float) -> int:
    """Ends a child from ``spawn`` as ``end_pidfd`` does; its exit status."""
    if process.poll() is None:
        pidfd = os.pidfd_open(process.pid)
        try:
            end_pidfd(pidfd, process.pid, grace)
        finally:
            os.close(pidfd)
    return process.wait()


def end_pidfd(pidfd: int, pid: int, grace: float) -> None:
    """SIGTERM to the process, after ``grace`` seconds SIGKILL; SIGKILL to what its session leaves.

    ``pid`` must lead its own process group, as after ``spawn``.
    """
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        # one that is stopped (SIGSTOP) does not see SIGTERM until it goes on
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    if not _has_ended(pidfd, grace):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        _has_ended(pidfd, None)
    # A zombie still holds its pid; of one that is gone, the rest of its group holds the number.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _has_ended(pidfd: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1000))


def open_if_same(pid: int, started: str) -> int | None:
    """A pidfd of the process ``pid`` if it is still the one that ``start_time`` told of."""
    try:
        pidfd = os.pidfd_open(pid)
    except (ProcessLookupError, PermissionError, OSError):
        return None
    # asked after the pidfd was opened: if it fits now, the pidfd is of that very process
    if start_time(pid) != started or _has_ended(pidfd, 0):
        os.close(pidfd)
        return None
    return pidfd


def start_time(pid: int) -> str | None:
    """When a process started, unique together with its pid; None when there is none (any more)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # proc(5): the command's name, in parentheses, may hold anything; start time is field 22
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
