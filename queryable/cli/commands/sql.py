"""`queryable sql`: the rows of a statement."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date, time
from typing import Annotated, Any

import typer

from model.formats.base64url import to_base64url
from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import exit_if_empty, print_stderr
from queryable.cli.output import Output, RowOutput, note_unreadable, write_rows
from queryable.cli.progress import row_progress


@command
def sql(
    *,
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="select … from a view.")],
    parameters: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VALUE]...", help="The values of ?, in order.", show_default=False),
    ] = None,
    is_local: Annotated[
        bool, typer.Option("--local", help="Run it here, by DuckDB: it may join views.")
    ] = False,
    client: Client,
    output: RowOutput,
) -> None:
    """Print the rows of an SQL statement about one view; with --local, about several.

    A statement has fields, count, sum, min, max and avg, where, group by, order by and limit. The
    values of ? are numbers, true, false and lists as JSON has them; all others are texts. Below a
    table, it prints how the entries were found, and how many were read. Exits with 1 if there are
    no rows.

    With --local, DuckDB runs the statement on this machine. It can do all that DuckDB can, and
    reads of each view the columns and conditions that it needs.

    \b
    Examples:
      queryable sql 'select origin, count(*) from latest-departure group by 1'
      queryable sql 'select * from latest-departure where dest = ?' MIA
      queryable sql 'select * from word-count where value in ?' '[17, 18]' --json
      queryable sql --local 'select * from "word-count" where length(key) > 3'
    """
    chosen = output.chosen()
    if is_local:
        _print_local(client, statement, [*map(_value, parameters or ())], chosen)
        return
    rows = client.sql(statement, *map(_value, parameters or ()))
    with row_progress(sys.stdout.isatty(), lambda: None) as on_row:
        written = write_rows(rows, chosen, on_row=on_row)
    source = rows.source
    if chosen.is_for_people and source is not None and source.examined is not None:
        print_stderr(f"{source.plan}, {source.examined:,} entries examined")
    exit_if_empty(written, "the statement has no rows")


def _print_local(client: Client, statement: str, parameters: Sequence[Any], chosen: Output) -> None:
    rows = client.local_sql(statement, *parameters)
    written = write_rows(map(_printed, rows.to_list()), chosen)
    for view, scans in rows.scans.items():
        for scan in scans:
            lag = "unknown" if scan.source.lag is None else f"{scan.source.lag:,}"
            if chosen.is_for_people:
                print_stderr(
                    f"{view}: {scan.source.plan}, {scan.rows:,} rows, {scan.bytes:,} bytes, "
                    f"lag {lag}"
                )
            if scan.unreadable:
                note_unreadable(scan.unreadable)
    exit_if_empty(written, "the statement has no rows")


def _printed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _json_of(value) for name, value in row.items()}


def _json_of(value: Any) -> Any:
    """A value in JSON: times in ISO 8601, decimals as texts, which have all their digits, and bytes
    in base64url."""
    if isinstance(value, list | tuple):
        return [_json_of(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _json_of(each) for name, each in value.items()}
    if isinstance(value, bytes):
        return to_base64url(value).decode()
    if isinstance(value, date | time):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float, list)) else text
