"""`queryable aggregate`: numbers of a view by group."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from queryable.cli.commands.time_ranges import From, To
from queryable.cli.commands.top import bars
from queryable.cli.config import Connection
from queryable.cli.exit_codes import exit_if_empty, reports_errors
from queryable.cli.options import (
    AsCsv,
    AsJson,
    StaleOption,
    Timeout,
    TokenFile,
    Url,
    Vertical,
    ViewName,
)
from queryable.cli.output import Output, note_unreadable, output_of, print_table, write_rows

app = typer.Typer()


@app.command()
@reports_errors
def aggregate(
    view: ViewName,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Field of the value to group by, such as a.b. [default: one group of all entries]",
        ),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Field with numbers. [default: the value itself, if it is a number]",
        ),
    ] = None,
    from_: From = None,
    to: To = None,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    vertical: Vertical = False,
) -> None:
    """Print count, sum, minimum, maximum and average by group.

    Without --value, the entries of each group are counted. --from and --to are for windows and
    sessions. Exits with 1 if there are no entries.

    \b
    Examples:
      queryable aggregate latest-departure --by origin
      queryable aggregate latest-departure --by origin --value delay
      queryable aggregate word-count
    """
    output = output_of(as_json, as_csv, vertical)
    options: Any = {"from_": from_, "to": to, "stale": stale}
    with Connection(url, timeout, token_file).client() as client:
        groups = client.aggregate(view, by, value, **options)
    has_numbers = any(group.count is not None for group in groups)
    rows = [
        asdict(group) if has_numbers else {"group": group.group, "entries": group.entries}
        for group in groups
    ]
    if output is Output.TABLE:
        # with numbers, a table fills 80 columns
        print_table(rows, bars=() if has_numbers else bars([group.entries for group in groups]))
    else:
        write_rows(rows, output)
    if groups.unreadable:
        note_unreadable(groups.unreadable)
    exit_if_empty(len(rows), f"view {view} has no entries within these bounds")
