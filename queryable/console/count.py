"""`queryable count`: how many entries there are."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from queryable.console.config import AsJson, Common, Timeout, Url
from queryable.console.exits import ends_well, say
from queryable.console.options import StaleOption, ViewName
from queryable.console.output import is_for_people, write_line


@ends_well
def count(
    view: ViewName,
    exact: Annotated[bool, typer.Option("--exact", help="Look at every entry.")] = False,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """How many entries a view has: an estimate, or --exact.

    \b
    Examples:
      queryable count word-count
      queryable count latest-departure --exact --timeout 60
      queryable count word-count --exact | jq .count
    """
    chosen: Any = stale
    with Common(url, timeout).client() as client:
        found = client.count(view, exact=exact, stale=chosen)
    if not is_for_people(as_json):
        write_line({"count": found.count, "exact": found.is_exact})
        return
    print(f"{found.count:,}")
    if not found.is_exact:
        say("an estimate: --exact looks at every entry")
