"""The signals that end a program of the local stack."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Lets the first of these signals raise KeyboardInterrupt. Later ones are ignored: a second
    Ctrl-C must not leave processes behind, and ending each process has a deadline. A SIGHUP that is
    ignored before, as after ``nohup``, stays ignored."""
    is_stopping = False

    def handle(*_: object) -> None:
        nonlocal is_stopping
        if not is_stopping:
            is_stopping = True
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    previous_handlers = [signal.signal(number, handle) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous_handlers, strict=True):
            signal.signal(number, handler)
