"""`queryable check`: what is wrong with a set-up, and what to do about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from queryable.console.adopt import BROKER_TIMEOUT, Servers
from queryable.console.config import AsJson, Timeout
from queryable.console.exits import NOT_THERE, ends_well
from queryable.console.extra import needs_server
from queryable.console.findings import is_sound
from queryable.console.output import is_for_people, write_line


@ends_well
def check(
    views: Annotated[
        Path | None, typer.Option(help="The file. Else QUERYABLE_VIEWS, else views.toml.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="The stores' folder. Else QUERYABLE_DATA_DIR, else data.")
    ] = None,
    bootstrap_servers: Servers = None,
    records: Annotated[int, typer.Option(min=1, help="How many of each topic to look at.")] = 500,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Tell what is wrong with a set-up, before or while it runs: file, broker, topics, machine.

    A line each: ok, warning or wrong, with what to do. The environment is read as an instance reads
    it. Nothing is changed. Ends with 1 if anything is wrong.

    \b
    Examples:
      queryable check
      queryable check --views views.toml --bootstrap-servers broker:9092
      queryable check --json | grep -v '"ok"'
    """
    with needs_server("check"):
        from queryable.console.checking import everything
    given = {"views": views, "data_dir": data_dir, "bootstrap_servers": bootstrap_servers}
    for_people = is_for_people(as_json)
    found = []
    for each in everything(os.environ, given, records, timeout or BROKER_TIMEOUT):
        found.append(each)
        if for_people:
            print(each.line(), flush=True)
        else:
            write_line(each.row())
    if not is_sound(found):
        raise SystemExit(NOT_THERE)
