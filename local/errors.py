"""Errors of the local stack, for its users."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class LocalError(Exception):
    """An error of the user's machine. The message says what failed, where, and what to do. It is
    shown without a stack trace."""


class TimedOut(LocalError):
    """A condition was not met in time. The message says which one."""


def friendly(command: Callable[P, R]) -> Callable[P, R]:
    """Decorator for a command: a ``LocalError`` is printed on stderr, and the exit status is 1."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except LocalError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            raise SystemExit(1) from None

    return run


def tail(text: str, lines: int = 15) -> str:
    """The last lines of a log for an error message: indented, without Java's stack frames."""
    shown = (line.rstrip() for line in text.splitlines() if line.strip())
    kept = [line for line in shown if not line.startswith("\tat ")][-lines:]
    return "\n".join(f"    {line}" for line in kept) or "    (nothing was logged)"
