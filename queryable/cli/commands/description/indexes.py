"""`queryable indexes`: the indexes of a view, and which replicas have built them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.description.state import PATH, placement_of
from queryable.cli.exit_codes import exit_if_empty
from queryable.cli.options import ViewName
from queryable.cli.output import DocumentOutput, print_table, write_line


@command
def indexes(*, view: ViewName, client: Client, output: DocumentOutput) -> None:
    """Print the indexes of a view, their fields, and how many replicas have built them.

    Exits with 1 if the view has no index.

    \b
    Examples:
      queryable indexes latest-departure
      queryable indexes latest-departure --json
    """
    info = client.view(view)
    placement = placement_of(info.name, client._run(client._context.get_json(PATH)))
    rows = list(_rows(info.description.get("indexes", {}), placement or []))
    if output.is_for_people:
        print_table([{**row, "fields": ", ".join(row["fields"])} for row in rows])
    else:
        write_line({"name": info.name, "indexes": rows})
    exit_if_empty(len(rows), f"view {view} has no index")


def _rows(
    declared: Mapping[str, Any], placement: list[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    replicas = [replica for placed in placement for replica in placed["replicas"]]
    # an instance that does not answer, or that has an older version, reports nothing
    reported = [replica["building"] for replica in replicas if replica.get("building") is not None]
    for name, fields in declared.items():
        built = sum(name not in building for building in reported)
        yield {"index": name, "fields": fields, "built": built, "replicas": len(replicas)}
