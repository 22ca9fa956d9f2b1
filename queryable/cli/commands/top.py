"""`queryable top`: the entries with the greatest numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.bar import Bar
from rich.console import RenderableType

from queryable.cli.config import Connection
from queryable.cli.exit_codes import exit_if_empty, reports_errors
from queryable.cli.options import (
    AsCsv,
    AsJson,
    Order,
    StaleOption,
    Timeout,
    TokenFile,
    Url,
    Vertical,
    ViewName,
)
from queryable.cli.output import Output, note_unreadable, output_of, print_table, write_rows

app = typer.Typer()

_BAR_WIDTH = 30


@app.command()
@reports_errors
def top(
    view: ViewName,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Field of the value to rank by, such as a.b. [default: the value itself]",
        ),
    ] = None,
    order: Order = "desc",
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Maximum number of rows.")
    ] = 10,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    vertical: Vertical = False,
) -> None:
    """Print the entries with the greatest numbers.

    With --order asc, print those with the smallest. Exits with 1 if no entry has a number.

    \b
    Examples:
      queryable top word-count
      queryable top latest-departure --by delay --limit 3
      queryable top latest-departure --by delay --order asc --json
    """
    output = output_of(as_json, as_csv, vertical)
    options: Any = {"order": order, "stale": stale}
    with Connection(url, timeout, token_file).client() as client:
        ranking = client.top(view, by, limit=limit, **options)
    rows = [row._asdict() for row in ranking]
    if output is Output.TABLE:
        print_table(rows, bars=bars([number_at(row["value"], by) for row in rows]))
    else:
        write_rows(rows, output)
    if ranking.unreadable:
        note_unreadable(ranking.unreadable)
    number = f"a number in field {by}" if by else "a number as its value"
    exit_if_empty(len(rows), f"no entry of view {view} has {number}")


def number_at(value: Any, by: str | None) -> float:
    """The number that the entry was ranked by."""
    for name in by.split(".") if by else ():
        value = value[name]
    try:
        return float(value)
    except OverflowError:  # an integer
        return math.inf if value > 0 else -math.inf


def bars(numbers: Sequence[float]) -> list[RenderableType]:
    """One bar per number, from 0; none for a number that is not finite."""
    finite = [number for number in numbers if math.isfinite(number)]
    least, most = min(0.0, *finite, 0.0), max(0.0, *finite, 0.0)
    return [
        Bar(most - least, min(number, 0.0) - least, max(number, 0.0) - least, width=_BAR_WIDTH)
        if math.isfinite(number) and most > least
        else ""
        for number in numbers
    ]
