"""How a command ends: 0 found, 1 not there (or different), 2 wrong use, 3 not available."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from queryable.core.errors import BadRequest, NoAnswer, NotFound, OutsideHistory, QueryableError

P = ParamSpec("P")
R = TypeVar("R")

FOUND, NOT_THERE, WRONG_USE, UNAVAILABLE = 0, 1, 2, 3
INTERRUPTED = 130  # 128 + SIGINT, as shells say it


def say(text: str) -> None:
    """To a person, beside the results."""
    print(text, file=sys.stderr, flush=True)


def found_or_end(rows: int, otherwise: str) -> None:
    """SystemExit where there are no rows, after telling so."""
    if not rows:
        say(otherwise)
        raise SystemExit(NOT_THERE)


def status_of(error: QueryableError) -> int:
    if isinstance(error, (BadRequest, NotFound, OutsideHistory, ValueError)):
        return WRONG_USE
    return UNAVAILABLE


def ends_well(command: Callable[P, R]) -> Callable[P, R]:
    """Makes a command end with a line and a status in place of a stack trace."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            try:
                return command(*args, **kwargs)
            finally:
                # here, where a reader that has gone is no error
                sys.stdout.flush()
        except QueryableError as error:
            say(f"queryable: {error}")
            if isinstance(error, NoAnswer):
                say(
                    "If the deployment is elsewhere: --url, QUERYABLE_URL, "
                    "or url in ~/.config/queryable/config.toml."
                )
            raise SystemExit(status_of(error)) from None
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            # whoever read has seen enough (`| head`); the interpreter shall not try to flush again
            _forget_output()
            raise SystemExit(FOUND) from None

    return run


def _forget_output() -> None:
    nowhere: Any = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
