"""`queryable windows`, `sessions` and `versions`: rows with times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from model.kinds.registry import kind_of
from queryable import ALL_KEYS, Client, View
from queryable.cli.commands.switching.view_versions import print_view_versions
from queryable.cli.declaration.command import command
from queryable.cli.options import complete_key
from queryable.cli.output import Output, Row, RowOutput, sparkline
from queryable.cli.queries import Query, cells_of, print_rows
from queryable.cli.values import parse_key
from queryable.client.protocol.errors import BadUse

KeyOrAll = Annotated[
    str | None,
    typer.Argument(metavar="KEY", help="[default: all keys]", autocompletion=complete_key),
]
KeyOrView = Annotated[
    str | None,
    typer.Argument(
        metavar="KEY",
        help="[default: the versions of the view itself]",
        autocompletion=complete_key,
    ),
]


@command
def windows(*, query: Query, key: KeyOrAll = None, client: Client, output: RowOutput) -> None:
    """Print the windows of a key, or of all keys.

    --from and --to bound the start of a window. Exits with 1 if there are none.

    \b
    Examples:
      queryable windows bookings anna
      queryable windows bookings anna --from 2013-01-02T00:00:00Z
      queryable windows bookings --key-from a --key-to c --limit 100
    """
    _print_history(client, query, key, output, client.windows)


@command
def sessions(*, query: Query, key: KeyOrAll = None, client: Client, output: RowOutput) -> None:
    """Print the sessions of a key, or of all keys.

    With --from and --to, print the sessions that overlap this time. Exits with 1 if there are none.

    \b
    Examples:
      queryable sessions visits anna
      queryable sessions visits --from 2013-01-01T00:00:00Z
    """
    _print_history(client, query, key, output, client.sessions)


@command
def versions(*, query: Query, key: KeyOrView = None, client: Client, output: RowOutput) -> None:
    """Print the versions of a key; without a key, those of the view.

    With --from and --to, print the versions of a key that were valid at some time in between. Exits
    with 1 if there are none. For a view, prints which version is current, and the progress
    of each.

    \b
    Examples:
      queryable versions orders
      queryable versions prices tea
      queryable versions prices tea --from 2013-06-01T00:00:00Z
    """
    output.chosen()  # raises BadUse for wrong options, also without a key
    if key is None:
        print_view_versions(client, query.view, output)
    else:
        _print_history(client, query, key, output, client.versions)


def _print_history(
    client: Client, query: Query, key: str | None, output: RowOutput, call: Callable[..., Any]
) -> None:
    """Prints the rows of a key, or of all keys. The numbers of one key are also printed as a
    sparkline, in the order of time."""
    view = client.view(query.view)
    _require(view, query.name)
    parsed = ALL_KEYS if key is None else parse_key(key, view)
    numbers: list[float] = []
    written = print_rows(
        client, query, output, partial(call, key=parsed), has_one_key=key is not None,
        rows_of=partial(_collect_numbers, numbers),
        empty_message=f"no {query.name} found in view {query.view}",
    )  # fmt: skip
    is_table = output.chosen() is Output.TABLE
    if is_table and key is not None and len(numbers) == written > 1:
        console = Console()
        ordered = numbers[::-1] if query.options["order"] == "desc" else numbers
        console.print(sparkline(ordered, console.width), markup=False, highlight=False)


def _require(view: View, history: str) -> None:
    """Raises BadUse if the view has no windows, sessions or versions, with the command to use."""
    kind = kind_of(view.store)
    if kind.history == history:
        return
    command = kind.history if kind.history and not kind.has_points else "get"
    raise BadUse(
        f"View {view.name} has a {view.store} store, which has no {history}: use `queryable "
        f"{command} {view.name} KEY`."
    )


def _collect_numbers(numbers: list[float], rows: Iterable[Any]) -> Iterator[Row]:
    """The rows; numbers among the values are appended to `numbers`."""
    for row in cells_of(rows):
        value = row["value"]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers.append(value)
        yield row
