"""Runs a command with a pseudo-terminal as its stdin, stdout and stderr."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import termios
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from local.launcher import launched
from local.waiting import wait_until

LINES = 50


class Terminal:
    """Runs the command during the block; kills its session at the end."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], columns: int = 100, term: str = "dumb"
    ) -> None:
        """A ``dumb`` terminal gets neither colours nor cursor movements."""
        screen, side = pty.openpty()
        termios.tcsetwinsize(side, (LINES, columns))
        size = {"COLUMNS": str(columns), "LINES": str(LINES)}
        try:
            self._process = subprocess.Popen(
                launched(command),
                stdin=side, stdout=side, stderr=side, start_new_session=True,
                env={**env, "TERM": term, **size},
            )  # fmt: skip
        finally:
            os.close(side)
        self._screen = screen
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while chunk := os.read(self._screen, 65536):
                self._written += chunk
        except OSError:
            pass  # Linux: no process has the other side open any more

    @property
    def text(self) -> str:
        """The output so far."""
        return self._written.decode(errors="replace").replace("\r\n", "\n")

    def wait_for(self, condition: Callable[[str], object], timeout: float = 30.0) -> str:
        """Waits until ``condition`` holds for the text; returns the text."""
        wait_until(
            lambda: condition(self.text), timeout, f"the expected text on the screen:\n{self.text}"
        )
        return self.text

    def send_keys(self, text: str) -> None:
        """Sends keys, such as ``"yes\\n"``."""
        os.write(self._screen, text.encode())

    def interrupt(self) -> None:
        """Sends SIGINT, like Ctrl-C."""
        os.killpg(self._process.pid, signal.SIGINT)

    def wait(self, timeout: float = 30.0) -> int:
        """The exit status, once the command has ended and its output is complete."""
        status = self._process.wait(timeout)
        self._reader.join(timeout)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._reader.join(5)
        os.close(self._screen)


def run_in_terminal(
    command: Sequence[str], env: Mapping[str, str], columns: int = 100, term: str = "dumb"
) -> tuple[int, str]:
    """Runs the command to its end; returns the exit status and the output."""
    with Terminal(command, env, columns, term) as terminal:
        return terminal.wait(), terminal.text
