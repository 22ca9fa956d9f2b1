"""The commands of `queryable`."""

from __future__ import annotations

import typer

from queryable.console import stack
from queryable.console.adopt import adopt
from queryable.console.append import append
from queryable.console.check import check
from queryable.console.count import count
from queryable.console.diff import diff
from queryable.console.get import get
from queryable.console.histories import sessions, versions, windows
from queryable.console.scan import scan
from queryable.console.top import top
from queryable.console.topology import topology
from queryable.console.views import views
from queryable.console.watch import watch

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def about() -> None:
    """Ask Kafka topics: what is there, how many, the greatest, each change as it comes.

    Ends with 0 found, 1 not there, 2 wrong use, 3 not available. Where the deployment is: --url,
    else QUERYABLE_URL, else url in ~/.config/queryable/config.toml.
    """


for command in (
    get, scan, top, count, windows, sessions, versions, watch, append, views, topology,
    diff, adopt, check, stack.up, stack.down, stack.demo,
):  # fmt: skip
    app.command()(command)
app.command(context_settings=stack.PASSED_ON)(stack.bench)


def main() -> None:
    """The console script."""
    app()
