"""`queryable aggregate`: numbers of a view by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import RenderableType

from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.output import Row, RowOutput, bars
from queryable.cli.queries import Query, print_rows
from queryable.client.protocol.calls.aggregate import Group, Groups


@command
def aggregate(*, query: Query, client: Client, output: RowOutput) -> None:
    """Print count, sum, minimum, maximum and average by group.

    Without --value, the entries of each group are counted. --from and --to are for windows and
    sessions. With --order-by, --order or --limit, the groups are ordered by a number. Exits with 1
    if there are no entries.

    \b
    Examples:
      queryable aggregate latest-departure --by origin
      queryable aggregate latest-departure --by origin --value delay
      queryable aggregate latest-departure --by origin --limit 1
      queryable aggregate word-count
    """
    print_rows(
        client, query, output, client.aggregate, rows_of=_rows, bars=_bars,
        empty_message=f"view {query.view} has no entries within these bounds",
    )  # fmt: skip


def _rows(groups: Groups) -> list[Row]:
    return [_row(group) for group in groups]


def _row(group: Group) -> Row:
    """The group; the numbers of several fields have the names of these before theirs."""
    row = {name: cell for name, cell in asdict(group).items() if name not in ("values", "non_null")}
    if group.count is None:
        row = {"group": group.group, "entries": group.entries}
    for field, numbers in group.values.items():
        row |= {f"{field}.{name}": cell for name, cell in asdict(numbers).items()}
    return row


def _bars(rows: Sequence[Row]) -> Sequence[RenderableType]:
    """Bars for the numbers of entries. None if the rows have other numbers, too, because the table
    then fills 80 columns."""
    return bars([row["entries"] for row in rows if len(row) == 2])
