"""`queryable queries`: the history of the shell."""

from __future__ import annotations

from typing import Annotated

import typer

from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import exit_if_empty
from queryable.cli.history import history_path, read_history
from queryable.cli.output import RowOutput, write_rows
from queryable.cli.values import iso_time


@command
def queries(
    *,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Only commands that contain this.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of rows.")] = 20,
    output: RowOutput,
) -> None:
    """Print the commands that were typed into the shell, the newest last.

    The history is in $XDG_STATE_HOME/queryable/history, which only you can read. Exits with 1 if
    there are none.

    \b
    Examples:
      queryable queries
      queryable queries latest-departure --limit 5
      queryable queries --csv > queries.csv
    """
    chosen = output.chosen()
    history = read_history(history_path())
    entries = [entry for entry in history if text is None or text in entry.command]
    rows = [
        {
            "time": iso_time(entry.time // 1000 * 1000) if chosen.is_for_people else entry.time,
            "command": entry.command,
            "exit": entry.status,
            "seconds": entry.seconds,
        }
        for entry in entries[-limit:]
    ]
    exit_if_empty(write_rows(rows, chosen), "no such command in the history of the shell")
