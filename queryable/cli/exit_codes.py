"""Exit codes. Errors are printed as one line on stderr, without a stack trace."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from queryable.cli.config import config_path
from queryable.cli.error_texts import error_text
from queryable.cli.values import printable
from queryable.client.protocol.errors import (
    BadRequest,
    Forbidden,
    NoAnswer,
    NotFound,
    OutsideHistory,
    QueryableError,
    Unauthenticated,
    ValueUnreadable,
)

P = ParamSpec("P")
R = TypeVar("R")

_is_running: ContextVar[bool] = ContextVar("is_running", default=False)

SUCCESS = 0
NOT_FOUND = 1
"""No such key, no rows in the range, a difference (`diff`, `fields`), a failed check (`check`)."""

USAGE_ERROR = 2
"""An invalid argument or setting, or a request that the API rejects (4xx)."""

UNAVAILABLE = 3
"""No answer, 503, 500 or 429, a record that was not confirmed, output that cannot be written, or an
unexpected error, which has a stack trace."""

UNREADABLE = 4
"""The value of a key is not in the view's format."""

INTERRUPTED = 130  # 128 + SIGINT, as in shells


def print_stderr(text: str) -> None:
    """Prints a text, which may have parts of records or answers, without control characters."""
    print(printable(text, kept="\n\t"), file=sys.stderr, flush=True)


def exit_if_empty(rows: int, message: str) -> None:
    """Exits with NOT_FOUND if there are no rows."""
    if not rows:
        print_stderr(message)
        raise SystemExit(NOT_FOUND)


class NoBroker(NoAnswer):
    """Kafka's broker does not answer, or refuses. The URL of the deployment does not matter.
    `remedy`: what to do, in the imperative, without a full stop."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.remedy = remedy


class NoRegistry(NoAnswer):
    """The schema registry does not answer, or refuses."""


def exit_code_of(error: QueryableError) -> int:
    if isinstance(error, ValueUnreadable):
        return UNREADABLE
    rejected = (BadRequest, Forbidden, NotFound, OutsideHistory, Unauthenticated, ValueError)
    return USAGE_ERROR if isinstance(error, rejected) else UNAVAILABLE


def advice(error: QueryableError) -> str:
    """What to do about an error that the command line can help with; otherwise empty."""
    if isinstance(error, NoBroker):
        return f"{error.remedy[:1].upper()}{error.remedy[1:]}."
    is_unreachable = isinstance(error, NoAnswer) and not isinstance(error, NoRegistry)
    is_other_api = error.code == "not-understood" and "of this API" in error.detail
    is_unknown_path = error.code == "no-such-resource" and error.detail.startswith("Unknown path ")
    if is_unreachable or is_other_api or is_unknown_path:
        return (
            f"Is this the right URL? Set it with --url, QUERYABLE_URL, or url in {config_path()}."
        )
    if error.code in ("version-not-ready", "deployment-not-ready"):
        can_wait = error.more.get("may_end") is True
        return f"{'--wait waits for it. ' if can_wait else ''}--force does not check it."
    if isinstance(error, Unauthenticated):
        return (
            "Set a valid token with --token-file FILE, QUERYABLE_TOKEN, or token_file in "
            f"{config_path()}. `queryable token --help` says how to make one."
        )
    if isinstance(error, Forbidden) and error.scope:
        return f"The token needs the scope {error.scope}."
    return ""


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Decorates a command: errors become a line on stderr and an exit code. The command may run
    others, as the shell does."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        running = _is_running.set(True)
        try:
            try:
                return command(*args, **kwargs)
            finally:
                # inside the outer try, which handles a closed pipe
                sys.stdout.flush()
        except QueryableError as error:
            print_stderr(f"queryable: {error_text(error)}")
            if hint := advice(error):
                print_stderr(hint)
            raise SystemExit(exit_code_of(error)) from None
        except UnicodeEncodeError as error:
            print_stderr(f"queryable: {error.object!a} is not UTF-8 text.")
            raise SystemExit(USAGE_ERROR) from None
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            # the reader has closed the pipe (`| head`), which is not an error
            raise SystemExit(SUCCESS) from None
        except OSError as error:
            # such as a full disk, on which the output is written
            print_stderr(f"queryable: {error}")
            raise SystemExit(UNAVAILABLE) from None
        finally:
            _is_running.reset(running)
            if not _is_running.get():
                _discard_unwritten_output()

    return run


def _discard_unwritten_output() -> None:
    """Keeps the interpreter from failing when it flushes stdout at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
