"""Handles of processes: to signal one, and to wait for its end.

On Linux, a handle is a pidfd, so another process that gets the same pid later is never affected.
Elsewhere it is the pid with the start time, which is compared before each signal.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol

PROC = Path("/proc")
"""Linux' file system of processes (proc(5)). Other systems have ps(1)."""

_LOOK_EVERY = 0.05
"""Seconds between two looks at a process without a pidfd."""


class Handle(Protocol):
    """One process."""

    def send(self, number: signal.Signals) -> None:
        """Sends the signal, unless the process has ended."""

    def has_ended(self, timeout: float | None) -> bool:
        """Waits until the process has ended (a zombie has), up to ``timeout`` s; None: forever."""

    def close(self) -> None:
        """Frees the handle; the process is not affected."""


class PidFd:
    """A process by its pidfd (pidfd_open(2))."""

    def __init__(self, pid: int) -> None:
        """Raises OSError if there is no such process."""
        self._fd = os.pidfd_open(pid)

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, number)

    def has_ended(self, timeout: float | None) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(None if timeout is None else timeout * 1000))

    def close(self) -> None:
        os.close(self._fd)


class _Watched:
    """A process that is looked at again and again."""

    def _is_running(self) -> bool:
        raise NotImplementedError

    def has_ended(self, timeout: float | None) -> bool:
        began = time.monotonic()
        while self._is_running():
            if timeout is not None and time.monotonic() - began >= timeout:
                return False
            time.sleep(_LOOK_EVERY)
        return True

    def close(self) -> None:
        pass


class WatchedChild(_Watched):
    """A child of this process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def _is_running(self) -> bool:
        return exit_status(self._process) is None

    def send(self, number: signal.Signals) -> None:
        if self._is_running():
            self._process.send_signal(number)


class WatchedProcess(_Watched):
    """Any process of this user."""

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError if there is no such process."""
        self._pid = pid
        started = start_time(pid)
        if started is None:
            raise ProcessLookupError(pid)
        self._started = started

    def _is_running(self) -> bool:
        return start_time(self._pid) == self._started and not _is_zombie(self._pid)

    def send(self, number: signal.Signals) -> None:
        if self._is_running():
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)


def handle_of_child(process: subprocess.Popen[bytes]) -> Handle:
    """The handle of a child that has not been waited for, also if it is a zombie."""
    return PidFd(process.pid) if _has_pidfd() else WatchedChild(process)


def open_if_same(pid: int, started: str) -> Handle | None:
    """The handle of process ``pid`` if it runs and its ``start_time`` is ``started``; otherwise
    None."""
    try:
        handle: Handle = PidFd(pid) if _has_pidfd() else WatchedProcess(pid)
    except OSError:
        return None
    # Check after opening a pidfd: if the start time matches now, the pidfd is that process's.
    if start_time(pid) != started or handle.has_ended(0):
        handle.close()
        return None
    return handle


def exit_status(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status of a child; None while it runs.

    It stays a zombie, so that the pid is not reused before the rest of its process group is ended.
    A system without waitid(2) in Python (macOS before Python 3.13) keeps no zombie.
    """
    if process.returncode is not None:
        return process.returncode
    if not keeps_zombies():
        return process.poll()
    siginfo = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if siginfo is None:
        return None
    return siginfo.si_status if siginfo.si_code == os.CLD_EXITED else -siginfo.si_status


def keeps_zombies() -> bool:
    """Whether ``exit_status`` leaves the child a zombie."""
    return hasattr(os, "waitid")


def start_time(pid: int) -> str | None:
    """The start time of a process, unique together with its pid; None if it does not exist."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None if _has_proc() else _from_ps(pid, "lstart")
    # proc(5): the command's name, in parentheses, may have any text; start time is field 22.
    return f"{_boot_id()}:{stat.rpartition(')')[2].split()[19]}"


def _is_zombie(pid: int) -> bool:
    return (_from_ps(pid, "state") or "").startswith("Z")


def _from_ps(pid: int, column: str) -> str | None:
    """A column of ps(1); None if the process does not exist."""
    command = ["ps", "-o", f"{column}=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _has_pidfd() -> bool:
    return hasattr(os, "pidfd_open")


def _has_proc() -> bool:
    try:
        return bool((PROC / "self" / "stat").read_text())
    except OSError:
        return False


@cache
def _boot_id() -> str:
    try:
        return (PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    except OSError:
        return "unknown"
