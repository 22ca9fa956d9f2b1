"""`queryable count`: the number of entries of a view."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from queryable.cli.config import Connection
from queryable.cli.exit_codes import print_stderr, reports_errors
from queryable.cli.options import AsJson, StaleOption, Timeout, TokenFile, Url, ViewName
from queryable.cli.output import is_for_terminal, note_unreadable, write_line

app = typer.Typer()


@app.command()
@reports_errors
def count(
    view: ViewName,
    exact: Annotated[bool, typer.Option("--exact", help="Count every entry of any view.")] = False,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the number of entries of a view.

    Above some 100,000 entries, the number is an estimate; with --exact, every entry is counted.

    \b
    Examples:
      queryable count word-count
      queryable count latest-departure --exact --timeout 60
      queryable count word-count --exact | jq .count
    """
    mode: Any = stale
    with Connection(url, timeout, token_file).client() as client:
        result = client.count(view, exact=exact, stale=mode)
    if not is_for_terminal(as_json):
        said: dict[str, object] = {} if result.is_exact else {"estimate": True}
        if result.unreadable:
            said["unreadable"] = result.unreadable
        write_line({"count": result.count, "exact": result.is_exact, **said})
        return
    print(f"{result.count:,}" if result.is_exact else f"about {result.count:,}")
    if result.unreadable:
        note_unreadable(result.unreadable)
    if not result.is_exact:
        print_stderr("an estimate; use --exact to count every entry")
