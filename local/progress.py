"""Progress bars on stderr; without a terminal, one line at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Update = Callable[[int], None]
"""Takes the number of steps done so far."""

console = Console(stderr=True)


@contextmanager
def bar(description: str, total: int) -> Iterator[Update]:
    """A progress bar of ``total`` steps while the block runs."""
    began = time.monotonic()
    done = 0

    def remember(count: int) -> None:
        nonlocal done
        done = count

    if not console.is_terminal:
        yield remember
        seconds = time.monotonic() - began
        console.print(f"{description}: {done:,} of {total:,} in {seconds:.1f} s", highlight=False)
        return
    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(description, total=total)
        yield lambda count: progress.update(task, completed=count)
