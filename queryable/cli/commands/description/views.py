"""`queryable views`: the views of a deployment."""

from __future__ import annotations

from typing import Annotated

import typer

from queryable import Client, View
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import exit_if_empty
from queryable.cli.options import complete_view
from queryable.cli.output import Output, RowOutput, write_line, write_rows
from queryable.cli.values import number_text

_COLUMNS = ("name", "topic", "path", "key", "value", "store", "partitions")


@command
def views(
    *,
    view: Annotated[
        str | None, typer.Argument(metavar="VIEW", autocompletion=complete_view)
    ] = None,
    client: Client,
    output: RowOutput,
) -> None:
    """List the views, or describe one.

    \b
    Examples:
      queryable views
      queryable views latest-departure
      queryable views --json | jq -r .name
    """
    chosen = output.chosen()
    listed = client.views() if view is None else [client.view(view)]
    if chosen is Output.JSON:
        for info in listed:
            write_line(info.description)
    elif view is None:
        write_rows([_row(info) for info in listed], chosen)
    else:
        fields = {**listed[0].description, "pipeline": pipeline_text(listed[0])}
        # it is the number of the instance that answers; `describe` has the sum of all
        fields.pop("unreadable", None)
        rows = [{"": name, view: cell} for name, cell in fields.items() if cell is not None]
        write_rows(rows, Output.TABLE if chosen is Output.VERTICAL else chosen)
    exit_if_empty(len(listed), "the deployment has no views")


def _row(view: View) -> dict[str, object]:
    cells = {name: view.description.get(name) for name in _COLUMNS}
    cells["pipeline"] = pipeline_text(view)
    return {name: cell for name, cell in cells.items() if cell is not None}


def pipeline_text(view: View) -> str | None:
    """The state and lag of the view's pipeline; None if the view names none."""
    pipeline = view.description.get("pipeline")
    if pipeline is None:
        return None
    return f"{pipeline['state']}, lag {number_text(pipeline['lag'])}"
