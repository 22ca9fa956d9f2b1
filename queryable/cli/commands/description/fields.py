"""`queryable fields`: the declaration of a view's fields, from a sample of its values."""

from __future__ import annotations

from typing import Annotated

import typer

from model.derive.reading import TableError
from model.rows.declared_fields import DeclaredField, parse_declared_fields
from model.view_versions import base_of, stored_name
from queryable import Client, Unreadable, View
from queryable.cli.declaration.command import command
from queryable.cli.description.declaration import declaration_of
from queryable.cli.exit_codes import NOT_FOUND, exit_if_empty, print_stderr
from queryable.cli.output import note_unreadable, write_line
from queryable.cli.queries import Query, listing_of
from queryable.client.protocol.errors import BadUse

_MAX_SAMPLE = 10_000


@command
def fields(
    *,
    query: Query,
    sample: Annotated[
        int, typer.Option(min=1, max=_MAX_SAMPLE, metavar="N", help="Entries to look at.")
    ] = 1000,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON line for each field, not the table.")
    ] = False,
    client: Client,
) -> None:
    """Print the types of a view's fields, as views.toml declares them.

    The types come from the first entries, so read the table before you use it: a later value may
    have another type. A field that cannot be declared becomes a comment with the
    reason.

    If the view declares fields, those that fit the sample stay as they are. Exits with 1 if
    some do not fit, and says how they differ.

    \b
    Examples:
      queryable fields latest-departure >> views.toml
      queryable fields latest-departure --sample 10000
      queryable fields latest-departure --where "key like 'N1%'" --json
    """
    view = client.view(query.view)
    declared = _declared(view)
    rows = list(listing_of(client, view)(query.view, limit=sample, **query.parameters(client)))
    values = [row.value for row in rows if not isinstance(row.value, Unreadable)]
    if len(values) < len(rows):
        note_unreadable(len(rows) - len(values))
    exit_if_empty(len(values), f"no values found in view {query.view}")
    declaration = declaration_of(values, declared)
    if declaration.others == len(values) and not declared:
        raise BadUse(
            f"The values of view {query.view} are not JSON objects (they are {view.value.name}), "
            "so they have no fields to declare."
        )
    if as_json:
        for field in declaration.fields:
            write_line(field.row())
    else:
        name = stored_name(base_of(view.name), view.version or 1)
        print(declaration.toml(name), end="", flush=True)
    for difference in declaration.differences:
        print_stderr(difference)
    if declaration.differences:
        raise SystemExit(NOT_FOUND)
    exit_if_empty(not declaration.is_empty, f"view {query.view} has no field that can be declared")


def _declared(view: View) -> tuple[DeclaredField, ...]:
    """The fields that the view declares. Raises BadUse if this version does not know their
    types."""
    table = view.description.get("fields")
    if not table:
        return ()
    try:
        return parse_declared_fields(table)
    except TableError as error:
        raise BadUse(
            f"The deployment declares the field {'.'.join(error.path)} of view {view.name}: "
            f"{error}. Use the queryable of its version."
        ) from None
