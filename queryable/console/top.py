"""`queryable top`: the entries with the greatest numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.bar import Bar
from rich.console import RenderableType

from queryable.console.config import AsJson, Common, Timeout, Url
from queryable.console.exits import ends_well, found_or_end
from queryable.console.options import Order, StaleOption, ViewName
from queryable.console.output import is_for_people, print_table, write_rows

_WIDTH = 30


@ends_well
def top(
    view: ViewName,
    by: Annotated[
        str | None,
        typer.Option(help="The field of the value, such as a.b; without it values are numbers."),
    ] = None,
    order: Order = "desc",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 10,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """The entries with the greatest numbers.

    Or, with --order asc, the least. Ends with 1 if there is none.

    \b
    Examples:
      queryable top word-count
      queryable top latest-departure --by delay --limit 3
      queryable top latest-departure --by delay --order asc --json
    """
    chosen: Any = {"order": order, "stale": stale}
    with Common(url, timeout).client() as client:
        rows = [row._asdict() for row in client.top(view, by, limit=limit, **chosen)]
    if is_for_people(as_json):
        print_table(rows, bars=bars([number_of(row["value"], by) for row in rows]))
    else:
        write_rows(rows, as_json)
    found_or_end(len(rows), f"no entry of {view} has such a number")


def number_of(value: Any, by: str | None) -> float:
    """What the entry was ranked by."""
    for name in by.split(".") if by else ():
        value = value[name]
    return float(value)


def bars(numbers: Sequence[float]) -> list[RenderableType]:
    """A bar a number, from 0; none for what is not finite."""
    finite = [number for number in numbers if math.isfinite(number)]
    least, most = min(0.0, *finite, 0.0), max(0.0, *finite, 0.0)
    return [
        Bar(most - least, min(number, 0.0) - least, max(number, 0.0) - least, width=_WIDTH)
        if math.isfinite(number) and most > least
        else ""
        for number in numbers
    ]
