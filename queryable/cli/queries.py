"""Queries as people type them, and the loop that reads and prints their rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Self, TypeVar

from rich.console import RenderableType

from model.kinds.registry import kind_of
from queryable import Client, Rows, View
from queryable.cli.declaration.groups import OptionGroup
from queryable.cli.declaration.query_options import options_of
from queryable.cli.exit_codes import exit_if_empty
from queryable.cli.options import ViewName
from queryable.cli.output import Output, Row, RowOutput, note_unreadable, write_rows
from queryable.cli.progress import row_progress
from queryable.client.protocol.errors import QueryableError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query(OptionGroup):
    """The view and the options of a query.

    `name`: as in `QueryOption.queries`. `options`: the values of the options that are given or have
    a default, by their names. Flags are among them only if they are set.
    """

    name: str
    view: str
    options: Mapping[str, Any]

    @classmethod
    def declared(cls, command: str) -> Sequence[Parameter]:
        view = Parameter("view", Parameter.KEYWORD_ONLY, annotation=ViewName)
        return [view, *(option.declared() for option in options_of(command))]

    @classmethod
    def from_values(cls, command: str, values: Mapping[str, Any]) -> Self:
        options = {
            name: value
            for name, value in values.items()
            if name != "view" and value is not None and value is not False
        }
        return cls(command, values["view"], options)

    def parameters(self, client: Client) -> dict[str, Any]:
        """The parameters of the client's call. Raises QueryableError."""
        values = dict(self.options)
        options = [option for option in options_of(self.name) if option.name in values]
        if any(option.depends_on_view for option in options):
            view = client.view(self.view)
            for option in options:
                values[option.name] = option.value_for(values[option.name], view)
        return values

    def result(self, client: Client, call: Callable[..., T]) -> T:
        """The result of the client's method `call`. Raises QueryableError."""
        return call(self.view, **self.parameters(client))


def listing_of(client: Client, view: View) -> Callable[..., Rows[Any]]:
    """The client's method that reads all rows of the view."""
    match kind_of(view.store).resource:
        case "windows":
            return client.windows
        case "sessions":
            return client.sessions
    return client.scan


def cells_of(result: Iterable[Any]) -> Iterable[Row]:
    """The rows of a call as dictionaries."""
    return (row._asdict() for row in result)


def print_rows(
    client: Client,
    query: Query,
    output: RowOutput,
    call: Callable[..., Iterable[Any]],
    *,
    empty_message: str,
    rows_of: Callable[[Any], Iterable[Row]] = cells_of,
    bars: Callable[[Sequence[Row]], Sequence[RenderableType]] | None = None,
    has_one_key: bool = False,
) -> int:
    """Prints the rows of a query page by page, with its progress; returns their number. Exits with
    NOT_FOUND and `empty_message` if there are none. Raises QueryableError.

    `call`: a method of the client, which gets the view and the query's parameters. `rows_of`: makes
    rows from its result. `bars`: makes one bar per row, on a terminal. `has_one_key`: all rows have
    the same key.
    """
    chosen = output.chosen()
    result = query.result(client, call)
    rows_on_terminal = sys.stdout.isatty() and chosen is not Output.TABLE
    with row_progress(
        rows_on_terminal, lambda: _expected_rows(client, query, has_one_key)
    ) as on_row:
        written = write_rows(rows_of(result), chosen, on_row=on_row, bars=bars)
    if unreadable := getattr(result, "unreadable", 0):
        note_unreadable(unreadable)
    exit_if_empty(written, empty_message)
    return written


def _expected_rows(client: Client, query: Query, has_one_key: bool) -> int | None:
    """An estimate; None if there is none."""
    limit: int | None = query.options.get("limit")
    bounds = {option.name for option in options_of(query.name) if option.is_bound}
    if has_one_key or query.options.keys() & bounds:
        return limit
    try:
        estimate = int(client.count(query.view))
    except QueryableError:
        return limit
    return estimate if limit is None else min(limit, estimate)
