"""`queryable scan`: the entries of a view, in the order of their keys."""

from __future__ import annotations

from typing import Annotated

import typer

from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.output import RowOutput
from queryable.cli.queries import Query, print_rows


@command
def scan(
    *,
    query: Query,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Print when each record was written, as epoch ms.")
    ] = False,
    client: Client,
    output: RowOutput,
) -> None:
    """Print the entries of a view, ordered by key or by a field that has an index.

    Exits with 1 if there are none.

    \b
    Examples:
      queryable scan latest-departure --prefix N1 --limit 20
      queryable scan word-count --from a --to m --order desc
      queryable scan latest-departure --where "delay > 60" --select flight,delay
      queryable scan latest-departure --order-by delay --order desc --limit 3
      queryable scan latest-departure --stream | gzip > departures.ndjson.gz
    """
    call = client.scan_dated if timestamps else client.scan
    print_rows(client, query, output, call, empty_message=f"no entries found in view {query.view}")
