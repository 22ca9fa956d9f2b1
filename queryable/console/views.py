"""`queryable views`: what can be asked."""

from __future__ import annotations

from typing import Annotated

import typer

from queryable import View
from queryable.console.config import AsJson, Common, Timeout, Url
from queryable.console.exits import ends_well, found_or_end
from queryable.console.options import complete_view
from queryable.console.output import is_for_people, print_table, write_line

_COLUMNS = ("name", "topic", "path", "key", "value", "store", "partitioner", "partitions")


@ends_well
def views(
    view: Annotated[
        str | None, typer.Argument(metavar="VIEW", autocompletion=complete_view)
    ] = None,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """All views, or all that the deployment says of one.

    \b
    Examples:
      queryable views
      queryable views latest-departure
      queryable views --json | jq -r .name
    """
    with Common(url, timeout).client() as client:
        found = client.views() if view is None else [client.view(view)]
    if not is_for_people(as_json):
        for each in found:
            write_line(each.description)
    elif view is None:
        print_table([_row(each) for each in found])
    else:
        said = {**found[0].description, "pipeline": pipeline_shown(found[0])}
        print_table([{"": name, view: cell} for name, cell in said.items() if cell is not None])
    found_or_end(len(found), "the deployment has no views")


def _row(view: View) -> dict[str, object]:
    cells = {name: view.description.get(name) for name in _COLUMNS}
    cells["pipeline"] = pipeline_shown(view)
    return {name: "" if cell is None else cell for name, cell in cells.items()}


def pipeline_shown(view: View) -> str | None:
    """The state of what derives the view, and its lag; None where it does not name it."""
    said = view.description.get("pipeline")
    if said is None:
        return None
    lag = "unknown" if said["lag"] is None else f"{said['lag']:,}"
    return f"{said['state']}, lag {lag}"
