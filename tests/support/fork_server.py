"""Starts backends as forks of a process that has already imported the product.

The imports are most of the cost of a start (0.65 s of CPU). Everything else is as in the command
that users run: the fork has its own session, environment and log, and calls gunicorn's `run` like
that command. Tests of the start use the command: `Backend.uses_command`.

The server is a process of this module. Requests and answers are lines of JSON on a socket. The
server exits when the socket is closed; its children get SIGTERM then.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from local.settings import REPOSITORY

_PRELOADED = ("gunicorn.app.wsgiapp", "backend.instance.application", "backend.server.worker")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class ForkedProcess:
    """A started backend, with the methods of `subprocess.Popen` that tests need."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self._pidfd = os.pidfd_open(pid)
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._reap(0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired as Popen does."""
        status = self._reap(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("gunicorn", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _reap(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(None if timeout is None else timeout * 1000):
                # until now it was a zombie, so its pid was not reused
                self.returncode = self._server.ask({"reap": self.pid})
                os.close(self._pidfd)
        return self.returncode


class ForkServer:
    """The client of the server process. Threads may share it."""

    def __init__(self) -> None:
        tests_end, server_end = socket.socketpair()
        command = [sys.executable, "-m", __name__, str(server_end.fileno())]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, pass_fds=[server_end.fileno()], start_new_session=True
        )
        server_end.close()
        self._file = tests_end.makefile("rwb")
        tests_end.close()
        self._lock = threading.Lock()

    def start(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path
    ) -> ForkedProcess:
        """A backend with these arguments of gunicorn, and this environment. Its output is appended
        to `log`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        of = {"arguments": list(arguments), "env": dict(env), "cwd": str(cwd), "log": str(log)}
        request = {"start": of}
        return ForkedProcess(self, self.ask(request))

    def ask(self, request: Mapping[str, Any]) -> int:
        with self._lock:
            self._file.write(json.dumps(request).encode() + b"\n")
            self._file.flush()
            answer = self._file.readline()
        if not answer:
            raise RuntimeError(f"the fork server ended with {self._process.wait()}")
        return int(answer)

    def close(self) -> None:
        self._file.close()
        self._process.wait()


@cache
def fork_server() -> ForkServer:
    """The fork server of this process. The first call starts it."""
    server = ForkServer()
    atexit.register(server.close)
    return server


def _serve(requests: socket.socket) -> dict[str, Any]:
    """Answers requests until the socket is closed, then exits. In each fork it returns the request:
    what to start."""
    with requests, requests.makefile("rwb") as file:
        while line := file.readline():
            request = json.loads(line)
            if "reap" in request:
                answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
            else:
                has_session, session_is_made = os.pipe()
                answer = os.fork()
                if answer == 0:
                    os.close(has_session)
                    os.setsid()
                    os.close(session_is_made)
                    return dict(request["start"])
                os.close(session_is_made)
                os.read(has_session, 1)  # before that, its process group does not exist
                os.close(has_session)
            file.write(b"%d\n" % answer)
            file.flush()
    sys.exit()


def _become(arguments: list[str], env: Mapping[str, str], cwd: str, log: str) -> None:
    """Sets what `local.processes.spawn` sets for a command."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(output)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["gunicorn", *arguments]


if __name__ == "__main__":
    for _name in _PRELOADED:
        __import__(_name)
    _become(**_serve(socket.socket(fileno=int(sys.argv[1]))))
    from gunicorn.app.wsgiapp import run

    run()
