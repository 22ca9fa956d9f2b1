"""`queryable shell`: an interactive shell."""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from typing import Any

import typer

from queryable.cli.config import Connection
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import UNAVAILABLE
from queryable.cli.history import history_path
from queryable.cli.shell.completion import Completer
from queryable.cli.shell.loop import Shell, set_up_readline


@command
def shell(*, context: typer.Context, connection: Connection) -> None:
    """Type commands one after another, with completion and history.

    Tab completes commands, options, views and keys. Without a terminal, commands are read from
    stdin; the exit code is that of the last one. `queryable queries` prints the history.

    \b
    Examples:
      queryable shell
      queryable shell --url https://topics.example.org
      echo 'count word-count' | queryable shell
    """
    group: Any = context.find_root().command
    values = {**context.find_root().params}
    values |= {name: value for name, value in context.params.items() if value is not None}
    prefix: list[str] = []
    for name in ("url", "timeout", "token_file"):
        if values.get(name) is not None:
            prefix += [f"--{name.replace('_', '-')}", str(values[name])]

    def run(words: list[str]) -> int:
        try:
            group.main([*prefix, *words], prog_name="queryable")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except Exception:
            traceback.print_exc()
            return UNAVAILABLE
        return 0

    history = history_path()
    if sys.stdin.isatty():
        with suppress(ImportError):  # Python was built without readline
            import readline

            set_up_readline(readline, Completer(group, prefix), history)
        print("`help` explains the shell. Tab completes. Ctrl-D leaves.")
    raise SystemExit(Shell(run, list(group.commands), history).interact())
