"""`queryable scan`: the entries of a view, in the order of their keys."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from queryable import Client
from queryable.cli.config import Connection
from queryable.cli.exit_codes import exit_if_empty, reports_errors
from queryable.cli.options import (
    AsCsv,
    AsJson,
    Limit,
    Order,
    StaleOption,
    Timeout,
    TokenFile,
    Url,
    Vertical,
    ViewName,
    parse_bound,
    parse_prefix,
)
from queryable.cli.output import Output, output_of, write_rows
from queryable.cli.progress import row_progress
from queryable.client.protocol.errors import QueryableError

app = typer.Typer()


@app.command()
@reports_errors
def scan(
    view: ViewName,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="KEY", help="First key, included.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="KEY", help="Last key, included.")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(metavar="PREFIX", help="Only keys with this prefix (string and bytes keys)."),
    ] = None,
    order: Order = "asc",
    limit: Limit = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Use one stream, not pages: costs the instances less."),
    ] = False,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Print when each record was written, as epoch ms.")
    ] = False,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    vertical: Vertical = False,
) -> None:
    """Print the entries of a view, ordered by key.

    Exits with 1 if there are none.

    \b
    Examples:
      queryable scan latest-departure --prefix N1 --limit 20
      queryable scan word-count --from a --to m --order desc
      queryable scan latest-departure --stream | gzip > departures.ndjson.gz
    """
    output = output_of(as_json, as_csv, vertical)
    options: Any = {"order": order, "stale": stale}
    with Connection(url, timeout, token_file).client() as client:
        view_info = client.view(view)
        options |= {"from_": parse_bound(from_, view_info, "--from")}
        options |= {"to": parse_bound(to, view_info, "--to")}
        options |= {"prefix": parse_prefix(prefix, view_info)}
        scan_rows: Any = client.scan_dated if timestamps else client.scan
        rows = scan_rows(view, limit=limit, stream=stream, **options)
        is_whole_view = from_ is None and to is None and prefix is None
        rows_on_terminal = sys.stdout.isatty() and output is not Output.TABLE
        with row_progress(
            rows_on_terminal, lambda: _expected_rows(client, view, limit, is_whole_view)
        ) as on_row:
            written = write_rows((row._asdict() for row in rows), output, on_row=on_row)
    exit_if_empty(written, f"no entries found in view {view}")


def _expected_rows(client: Client, view: str, limit: int | None, is_whole_view: bool) -> int | None:
    """An estimate; None if there is none."""
    if not is_whole_view:
        return limit
    try:
        estimate = int(client.count(view))
    except QueryableError:
        return limit
    return estimate if limit is None else min(limit, estimate)
