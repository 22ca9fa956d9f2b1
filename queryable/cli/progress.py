"""The progress of a long command, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from queryable.cli.exit_codes import print_stderr
from queryable.client.protocol.errors import BadRequest

# a command that ends sooner shows nothing
_DELAY_S = 0.5
_INTERVAL_S = 0.1
_STEP_S = 30  # for which an instance waits after one command

T = TypeVar("T")


class _ProgressBar:
    """Shows nothing at first. `total` is called when the bar is shown; None: unknown."""

    def __init__(self, total: Callable[[], int | None]) -> None:
        self._total = total
        self._started = time.monotonic()
        self._next = self._started + _DELAY_S
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __call__(self, rows: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL_S
        if self._bar is None:
            self._show()
        assert self._bar is not None
        speed = f"{rows / (now - self._started):,.0f} rows/s"
        self._bar.update(self._task, completed=rows, rows=f"{rows:,} rows", speed=speed)

    def _show(self) -> None:
        total = self._total()
        total_columns = [] if total is None else [BarColumn(), TextColumn(f"of about {total:,}")]
        self._bar = Progress(
            TextColumn("{task.fields[rows]}"), *total_columns, TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(), console=Console(stderr=True), transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total, rows="", speed="")
        self._bar.start()

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def row_progress(
    rows_on_terminal: bool, total: Callable[[], int | None]
) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows so far.

    `rows_on_terminal`: the rows themselves are printed to the terminal, so no bar is shown.
    """
    if rows_on_terminal or not sys.stderr.isatty():
        yield lambda _: None
        return
    progress = _ProgressBar(total)
    try:
        yield progress
    finally:
        progress.end()


def poll(ask: Callable[[bool], tuple[bool, T]], seconds: float, step: float) -> T:
    """Asks every `step` seconds until the answer is final, or until `seconds` have passed; returns
    the last answer. `ask(is_last)` returns whether the answer is final, and the answer."""
    deadline = time.monotonic() + seconds
    while True:
        is_last = time.monotonic() >= deadline
        is_final, answer = ask(is_last)
        if is_final or is_last:
            return answer
        time.sleep(step)


def when_complete(
    send: Callable[[int | None], dict[str, Any]],
    waits: bool,
    show: Callable[[str], None] = print_stderr,
) -> dict[str, Any]:
    """The answer to a command. `send(seconds)` sends the command to an instance, which waits for
    this time (None: for its default).

    Raises BadRequest if the command is refused: with `waits`, only for a reason that does not end
    by itself. In between, it shows what is missing.
    """
    shown = ""
    while True:
        try:
            return send(_STEP_S if waits else None)
        except BadRequest as refused:
            if not waits or refused.more.get("may_end") is not True:
                raise
            if refused.detail != shown:
                shown = refused.detail
                show(f"waiting: {shown}")
