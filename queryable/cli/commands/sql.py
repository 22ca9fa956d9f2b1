"""`queryable sql`: the rows of a statement."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import exit_if_empty, print_stderr
from queryable.cli.output import RowOutput, write_rows
from queryable.cli.progress import row_progress


@command
def sql(
    *,
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="select … from one view.")],
    parameters: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VALUE]...", help="The values of ?, in order.", show_default=False),
    ] = None,
    client: Client,
    output: RowOutput,
) -> None:
    """Print the rows of an SQL statement about one view.

    A statement has fields, count, sum, min, max and avg, where, group by, order by and limit. The
    values of ? are numbers, true, false and lists as JSON has them; all others are texts. Below a
    table, it prints how the entries were found, and how many were read. Exits with 1 if there are
    no rows.

    \b
    Examples:
      queryable sql 'select origin, count(*) from latest-departure group by 1'
      queryable sql 'select * from latest-departure where dest = ?' MIA
      queryable sql 'select * from word-count where value in ?' '[17, 18]' --json
    """
    chosen = output.chosen()
    rows = client.sql(statement, *map(_value, parameters or ()))
    with row_progress(sys.stdout.isatty(), lambda: None) as on_row:
        written = write_rows(rows, chosen, on_row=on_row)
    source = rows.source
    if chosen.is_for_people and source is not None and source.examined is not None:
        print_stderr(f"{source.plan}, {source.examined:,} entries examined")
    exit_if_empty(written, "the statement has no rows")


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float, list)) else text
