"""`queryable shell`: an interactive shell."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from queryable.cli.config import Connection
from queryable.cli.exit_codes import UNAVAILABLE, reports_errors
from queryable.cli.history import history_path
from queryable.cli.options import Timeout, TokenFile, Url
from queryable.cli.shell.completion import Completer, LiveDeployment
from queryable.cli.shell.loop import Shell, set_up_readline

app = typer.Typer()

_COMPLETION_TIMEOUT = 1.0  # s; the user waits for it
_WITH_KEYS = frozenset({"get", "windows", "sessions", "versions", "watch", "append"})


@app.command()
@reports_errors
def shell(
    context: typer.Context,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
) -> None:
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
    commands: Mapping[str, Any] = group.commands
    given = {**context.find_root().params}
    given |= {name: value for name, value in context.params.items() if value is not None}
    prefix: list[str] = []
    for name in ("url", "timeout", "token_file"):
        if given.get(name) is not None:
            prefix += [f"--{name.replace('_', '-')}", str(given[name])]

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
        _edit_lines(commands, Connection(url, _COMPLETION_TIMEOUT, token_file))
        print("`help` explains the shell. Tab completes. Ctrl-D leaves.")
    raise SystemExit(Shell(run, list(commands), history).interact())


def _edit_lines(commands: Mapping[str, Any], connection: Connection) -> None:
    """Without effect if Python was built without readline."""
    try:
        import readline
    except ImportError:
        return
    options = {name: _options(command.params) for name, command in commands.items()}
    options |= {"help": sorted(commands), "output": [], "exit": []}
    with_view = frozenset(
        name
        for name, command in commands.items()
        if any((each.metavar or "").startswith("VIEW") for each in command.params)
    )
    deployment = LiveDeployment(connection.client)
    completer = Completer(options, with_view - {"serve"}, _WITH_KEYS, deployment)
    set_up_readline(readline, completer, history_path())


def _options(params: Sequence[Any]) -> list[str]:
    return sorted(name for each in params for name in each.opts if name.startswith("--"))
