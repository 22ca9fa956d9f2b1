"""Exit codes. Errors are printed as one line on stderr, without a stack trace."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from queryable.client.protocol.errors import (
    BadRequest,
    NoAnswer,
    NotFound,
    OutsideHistory,
    QueryableError,
)

P = ParamSpec("P")
R = TypeVar("R")

SUCCESS = 0
NOT_FOUND = 1
"""No such key, no rows in the range, a difference (`diff`), a failed check (`check`)."""

USAGE_ERROR = 2
"""An invalid argument or setting, or a request that the API rejects (4xx)."""

UNAVAILABLE = 3
"""No answer, 503 or 500, or a record that was not confirmed."""

INTERRUPTED = 130  # 128 + SIGINT, as in shells


def print_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def exit_if_empty(rows: int, message: str) -> None:
    """Exits with NOT_FOUND if there are no rows."""
    if not rows:
        print_stderr(message)
        raise SystemExit(NOT_FOUND)


def exit_code_of(error: QueryableError) -> int:
    if isinstance(error, (BadRequest, NotFound, OutsideHistory, ValueError)):
        return USAGE_ERROR
    return UNAVAILABLE


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Decorates a command: errors become a line on stderr and an exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            try:
                return command(*args, **kwargs)
            finally:
                # inside the outer try, which handles a closed pipe
                sys.stdout.flush()
        except QueryableError as error:
            print_stderr(f"queryable: {error}")
            if isinstance(error, NoAnswer):
                print_stderr(
                    "Is this the right URL? Set it with --url, QUERYABLE_URL, or url in "
                    "~/.config/queryable/config.toml."
                )
            raise SystemExit(exit_code_of(error)) from None
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            # the reader has closed the pipe (`| head`), which is not an error
            _discard_output()
            raise SystemExit(SUCCESS) from None

    return run


def _discard_output() -> None:
    """Keeps the interpreter from failing when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
