"""`queryable count`: the number of entries of a view."""

from __future__ import annotations

from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import print_stderr
from queryable.cli.output import DocumentOutput, note_unreadable, write_line
from queryable.cli.queries import Query


@command
def count(*, query: Query, client: Client, output: DocumentOutput) -> None:
    """Print the number of entries of a view.

    Above some 100,000 entries, the number is an estimate; with --exact, every entry is counted.

    \b
    Examples:
      queryable count word-count
      queryable count latest-departure --exact --timeout 60
      queryable count word-count --exact | jq .count
    """
    result = query.result(client, client.count)
    if not output.is_for_people:
        more: dict[str, object] = {} if result.is_exact else {"estimate": True}
        if result.unreadable:
            more["unreadable"] = result.unreadable
        write_line({"count": result.count, "exact": result.is_exact, **more})
        return
    print(f"{result.count:,}" if result.is_exact else f"about {result.count:,}")
    if result.unreadable:
        note_unreadable(result.unreadable)
    if not result.is_exact:
        print_stderr("an estimate; use --exact to count every entry")
