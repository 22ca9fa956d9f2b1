"""`queryable fields`: the declaration of a view's fields, from a sample of its values, and from the
newest schema in the registry."""

from __future__ import annotations

from typing import Annotated

import typer

from model.derive.reading import TableError
from model.expressions.types import parse_field_type
from model.formats.registry import format_of
from model.rows.declared_fields import DeclaredField, parse_declared_fields
from model.view_versions import base_of, stored_name
from queryable import Client, Unreadable, View
from queryable.cli.declaration.command import command
from queryable.cli.description.declaration import declaration_of
from queryable.cli.description.registered import OPTION, newest_fields
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
    registry: Annotated[
        str | None,
        typer.Option(
            OPTION,
            metavar="URL",
            help="The schema registry of values with Confluent's header. "
            "QUERYABLE_SCHEMA_REGISTRY_AUTH has its user:password. [default: that of "
            "QUERYABLE_VIEWS, else of views.toml]",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON line for each field, not the table.")
    ] = False,
    client: Client,
) -> None:
    """Print the types of a view's fields, as views.toml declares them.

    The types come from the first entries, so read the table before you use it: a later value may
    have another type. A field that cannot be declared becomes a comment with the
    reason. If values name their schemas, the types are those of the newest schema in the registry.

    If the view declares fields, those that fit the sample stay as they are. Exits with 1 if
    some do not fit, and says how they differ. Fields that derive or a file with a schema declares
    need no table, and are comments.

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
    registered = newest_fields(view, registry)
    by_table = {field.path for field in declared}
    more = tuple(field for field in registered.fields if field.path not in by_table)
    known = (*declared, *more)
    exit_if_empty(len(values) + len(known), f"no values found in view {query.view}")
    quotes_numbers = format_of(view.value.name).quotes_numbers or "unwrap" in view.description
    declaration = declaration_of(values, known, quotes_numbers)
    if declaration.others == len(values) and not known:
        raise BadUse(
            f"The values of view {query.view} are not JSON objects (they are {view.value.name}), "
            "so they have no fields to declare."
        )
    if as_json:
        for field in declaration.fields:
            write_line(field.row())
    else:
        name = stored_name(base_of(view.name), view.version or 1)
        print(declaration.toml(name, registered.schema), end="", flush=True)
    for difference in declaration.differences:
        print_stderr(difference)
    if declaration.differences:
        raise SystemExit(NOT_FOUND)
    exit_if_empty(not declaration.is_empty, f"view {query.view} has no field that can be declared")


def _declared(view: View) -> tuple[DeclaredField, ...]:
    """The fields that the view declares: those of its table, then its own. Raises BadUse if this
    version does not know their types."""
    types: dict[str, str] = view.description.get("fields", {})
    declared_by: dict[str, str] = view.description.get("declared_by", {})
    table = {name: type_ for name, type_ in types.items() if name not in declared_by}
    try:
        fields = parse_declared_fields(table) if table else ()
        own = (_own(name, types[name], by) for name, by in declared_by.items() if name in types)
        return (*fields, *own)
    except TableError as error:
        raise BadUse(
            f"The deployment declares the field {'.'.join(error.path)} of view {view.name}: "
            f"{error}. Use the queryable of its version."
        ) from None


def _own(name: str, text: str, declared_by: str) -> DeclaredField:
    try:
        return DeclaredField(tuple(name.split(".")), text, parse_field_type(text), declared_by)
    except ValueError as error:
        raise TableError((name,), str(error)) from None
