"""`queryable scan`: the entries of a view, in the order of their keys."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from queryable import Client
from queryable.console.config import AsJson, Common, Timeout, Url
from queryable.console.exits import ends_well, found_or_end
from queryable.console.options import Limit, Order, StaleOption, ViewName, bound, prefix_of
from queryable.console.output import is_for_people, write_rows
from queryable.console.progress import told
from queryable.core.errors import QueryableError


@ends_well
def scan(
    view: ViewName,
    from_: Annotated[str | None, typer.Option("--from", help="The first key.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="The last key.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Of string and bytes keys.")] = None,
    order: Order = "asc",
    limit: Limit = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="As one stream: costs the instances less.")
    ] = False,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """The entries of a view, in the order of their keys.

    Both bounds are within. Ends with 1 if there is none.

    \b
    Examples:
      queryable scan latest-departure --prefix N1 --limit 20
      queryable scan word-count --from a --to m --order desc
      queryable scan latest-departure --stream | gzip > departures.ndjson.gz
    """
    options: Any = {"order": order, "stale": stale}
    with Common(url, timeout).client() as client:
        described = client.view(view)
        options |= {"from_": bound(from_, described), "to": bound(to, described)}
        options |= {"prefix": prefix_of(prefix, described)}
        rows = client.scan(view, limit=limit, stream=stream, **options)
        is_whole = from_ is None and to is None and prefix is None
        are_shown_at_once = sys.stdout.isatty() and not is_for_people(as_json)
        with told(are_shown_at_once, lambda: _total(client, view, limit, is_whole)) as count:
            written = write_rows((row._asdict() for row in rows), as_json, count=count)
    found_or_end(written, f"no entry of {view} is there")


def _total(client: Client, view: str, limit: int | None, is_whole: bool) -> int | None:
    """About how many will come, as far as that can be known."""
    if not is_whole:
        return limit
    try:
        estimate = int(client.count(view))
    except QueryableError:
        return limit
    return estimate if limit is None else min(limit, estimate)
