"""`queryable views`: the views of a deployment."""

from __future__ import annotations

from typing import Annotated

import typer

from queryable import View
from queryable.cli.config import Connection
from queryable.cli.exit_codes import exit_if_empty, reports_errors
from queryable.cli.options import AsJson, Timeout, TokenFile, Url, complete_view
from queryable.cli.output import is_for_terminal, print_table, write_line

app = typer.Typer()

_COLUMNS = ("name", "topic", "path", "key", "value", "store", "partitioner", "partitions")


@app.command()
@reports_errors
def views(
    view: Annotated[
        str | None, typer.Argument(metavar="VIEW", autocompletion=complete_view)
    ] = None,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the views, or describe one.

    \b
    Examples:
      queryable views
      queryable views latest-departure
      queryable views --json | jq -r .name
    """
    with Connection(url, timeout, token_file).client() as client:
        found = client.views() if view is None else [client.view(view)]
    if not is_for_terminal(as_json):
        for each in found:
            write_line(each.description)
    elif view is None:
        print_table([_row(each) for each in found])
    else:
        fields = {**found[0].description, "pipeline": pipeline_text(found[0])}
        print_table([{"": name, view: cell} for name, cell in fields.items() if cell is not None])
    exit_if_empty(len(found), "the deployment has no views")


def _row(view: View) -> dict[str, object]:
    cells = {name: view.description.get(name) for name in _COLUMNS}
    cells["pipeline"] = pipeline_text(view)
    return {name: "" if cell is None else cell for name, cell in cells.items()}


def pipeline_text(view: View) -> str | None:
    """The state and lag of the view's pipeline; None if the view names none."""
    pipeline = view.description.get("pipeline")
    if pipeline is None:
        return None
    lag = "unknown" if pipeline["lag"] is None else f"{pipeline['lag']:,}"
    return f"{pipeline['state']}, lag {lag}"
