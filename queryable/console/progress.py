"""How far a command is that takes long: for people, on stderr, gone when it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

# s; what ends sooner shows nothing
_LONG = 0.5
_BETWEEN = 0.1


class _Told:
    """Shows nothing at first. `total`: asked once something is shown; None where nobody knows."""

    def __init__(self, total: Callable[[], int | None]) -> None:
        self._total = total
        self._began = time.monotonic()
        self._next = self._began + _LONG
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __call__(self, rows: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _BETWEEN
        if self._bar is None:
            self._show()
        assert self._bar is not None
        speed = f"{rows / (now - self._began):,.0f} rows/s"
        self._bar.update(self._task, completed=rows, rows=f"{rows:,} rows", speed=speed)

    def _show(self) -> None:
        total = self._total()
        known = [] if total is None else [BarColumn(), TextColumn(f"of about {total:,}")]
        self._bar = Progress(
            TextColumn("{task.fields[rows]}"), *known, TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(), console=Console(stderr=True), transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total, rows="", speed="")
        self._bar.start()

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def told(is_beside_rows: bool, total: Callable[[], int | None]) -> Iterator[Callable[[int], None]]:
    """To be told how many rows there are by now. `is_beside_rows`: they are written to a terminal
    while they come, where a bar would be in their way."""
    if is_beside_rows or not sys.stderr.isatty():
        yield lambda _: None
        return
    progress = _Told(total)
    try:
        yield progress
    finally:
        progress.end()
