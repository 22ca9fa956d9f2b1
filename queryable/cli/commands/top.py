"""`queryable top`: the entries with the greatest numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType

from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.output import Row, RowOutput, bars
from queryable.cli.queries import Query, print_rows


@command
def top(*, query: Query, client: Client, output: RowOutput) -> None:
    """Print the entries with the greatest numbers.

    With --order asc, print those with the smallest. In a view of windows or sessions, print the
    keys with the greatest sum of all entries from --from to --to. Exits with 1 if no entry has a
    number.

    \b
    Examples:
      queryable top word-count
      queryable top latest-departure --by delay --limit 3
      queryable top latest-departure --by delay --order asc --json
      queryable top bookings --from 2013-01-01T00:00:00Z --order asc
    """
    by = query.options.get("by")
    number = f"a number in field {by}" if by else "a number as its value"
    empty_message = f"no entry of view {query.view} has {number}"

    def ranked(rows: Sequence[Row]) -> Sequence[RenderableType]:
        return bars([number_at(row["value"], by) for row in rows])

    print_rows(client, query, output, client.top, bars=ranked, empty_message=empty_message)


def number_at(value: Any, by: str | None) -> float:
    """The number that the entry was ranked by: in its value, or the value itself."""
    for name in by.split(".") if by and isinstance(value, dict) else ():
        value = value[name]
    try:
        return float(value)
    except OverflowError:  # an integer
        return math.inf if value > 0 else -math.inf
