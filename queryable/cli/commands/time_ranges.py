"""`queryable windows`, `sessions` and `versions`: rows with times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from model.kinds.registry import kind_of
from queryable import ALL_KEYS, View
from queryable.cli.commands.switching.view_versions import print_versions
from queryable.cli.config import Connection
from queryable.cli.exit_codes import exit_if_empty, reports_errors
from queryable.cli.options import (
    AsCsv,
    AsJson,
    Limit,
    Order,
    StaleOption,
    Timeout,
    TokenFile,
    Url,
    Vertical,
    ViewName,
    parse_bound,
)
from queryable.cli.output import Output, output_of, sparkline, write_rows
from queryable.cli.values import parse_key
from queryable.client.protocol.errors import BadUse

app = typer.Typer()

_KEY_FROM_HELP = "First key, included."
_TIME_HELP = "Lower bound, included: ISO 8601 with a time zone, or epoch ms."

Key = Annotated[str | None, typer.Argument(metavar="KEY", help="[default: all keys]")]
OneKey = Annotated[
    str | None, typer.Argument(metavar="KEY", help="[default: the versions of the view itself]")
]
From = Annotated[str | None, typer.Option("--from", metavar="TIME", help=_TIME_HELP)]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Upper bound, included.")]
KeyFrom = Annotated[str | None, typer.Option("--key-from", metavar="KEY", help=_KEY_FROM_HELP)]
KeyTo = Annotated[str | None, typer.Option("--key-to", metavar="KEY", help="Last key, included.")]


@app.command()
@reports_errors
def windows(
    view: ViewName,
    key: Key = None,
    from_: From = None,
    to: To = None,
    key_from: KeyFrom = None,
    key_to: KeyTo = None,
    order: Order = "asc",
    limit: Limit = None,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    vertical: Vertical = False,
) -> None:
    """Print the windows of a key, or of all keys.

    --from and --to bound the start of a window. Exits with 1 if there are none.

    \b
    Examples:
      queryable windows bookings anna
      queryable windows bookings anna --from 2013-01-02T00:00:00Z
      queryable windows bookings --key-from a --key-to c --limit 100
    """
    output = output_of(as_json, as_csv, vertical)
    with Connection(url, timeout, token_file).client() as client:
        view_info = client.view(view)
        _require(view_info, "windows")
        rows = client.windows(
            view, **_bounds(view_info, key, key_from, key_to),
            **_options(from_, to, order, limit, stale),
        )  # fmt: skip
        written = _print(rows, output, of_one_key=key is not None, is_descending=order == "desc")
    exit_if_empty(written, f"no windows found in view {view}")


@app.command()
@reports_errors
def sessions(
    view: ViewName,
    key: Key = None,
    from_: From = None,
    to: To = None,
    key_from: KeyFrom = None,
    key_to: KeyTo = None,
    order: Order = "asc",
    limit: Limit = None,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    vertical: Vertical = False,
) -> None:
    """Print the sessions of a key, or of all keys.

    With --from and --to, print the sessions that overlap this time. Exits with 1 if there are none.

    \b
    Examples:
      queryable sessions visits anna
      queryable sessions visits --from 2013-01-01T00:00:00Z
    """
    output = output_of(as_json, as_csv, vertical)
    with Connection(url, timeout, token_file).client() as client:
        view_info = client.view(view)
        _require(view_info, "sessions")
        rows = client.sessions(
            view, **_bounds(view_info, key, key_from, key_to),
            **_options(from_, to, order, limit, stale),
        )  # fmt: skip
        written = _print(rows, output, of_one_key=key is not None, is_descending=order == "desc")
    exit_if_empty(written, f"no sessions found in view {view}")


@app.command()
@reports_errors
def versions(
    view: ViewName,
    key: OneKey = None,
    from_: From = None,
    to: To = None,
    order: Order = "asc",
    limit: Limit = None,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    vertical: Vertical = False,
) -> None:
    """Print the versions of a key; without a key, those of the view.

    With --from and --to, print the versions of a key that were valid at some time in between. Exits
    with 1 if there are none. The versions of a view: which one is current, and how far each is.

    \b
    Examples:
      queryable versions orders
      queryable versions prices tea
      queryable versions prices tea --from 2013-06-01T00:00:00Z
    """
    output = output_of(as_json, as_csv, vertical)
    with Connection(url, timeout, token_file).client() as client:
        if key is None:
            print_versions(client, view, as_json)
            return
        view_info = client.view(view)
        _require(view_info, "versions")
        rows = client.versions(
            view, parse_key(key, view_info), **_options(from_, to, order, limit, stale)
        )
        written = _print(rows, output, of_one_key=True, is_descending=order == "desc")
    exit_if_empty(written, f"no versions found in view {view}")


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


def _bounds(
    view: View, key: str | None, key_from: str | None, key_to: str | None
) -> dict[str, Any]:
    return {
        "key": ALL_KEYS if key is None else parse_key(key, view),
        "key_from": parse_bound(key_from, view, "--key-from"),
        "key_to": parse_bound(key_to, view, "--key-to"),
    }


def _options(
    from_: str | None, to: str | None, order: str, limit: int | None, stale: str | None
) -> dict[str, Any]:
    return {"from_": from_, "to": to, "order": order, "limit": limit, "stale": stale}


def _print(rows: Iterable[Any], output: Output, of_one_key: bool, is_descending: bool) -> int:
    """Prints the rows and returns their number.

    The numbers of one key are also printed as a sparkline, in the order of time.
    """
    if output is not Output.TABLE:
        return write_rows((row._asdict() for row in rows), output)
    numbers: list[float] = []
    written = write_rows(_collect_numbers(rows, numbers), output)
    if of_one_key and len(numbers) == written > 1:
        console = Console()
        ordered = numbers[::-1] if is_descending else numbers
        console.print(sparkline(ordered, console.width), markup=False, highlight=False)
    return written


def _collect_numbers(rows: Iterable[Any], numbers: list[float]) -> Iterator[dict[str, Any]]:
    """The rows; numbers among the values are appended to `numbers`."""
    for row in rows:
        cells = row._asdict()
        value = cells["value"]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers.append(value)
        yield cells
