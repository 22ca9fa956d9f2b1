"""The commands of `queryable`."""

from __future__ import annotations

import typer

from queryable.console import stack
from queryable.console.adopt import adopt
from queryable.console.check import check
from queryable.console.diff import diff
from queryable.console.get import get

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


app.command()(get)
app.command()(stack.up)
app.command()(stack.down)
app.command()(stack.demo)
app.command(context_settings=stack.PASSED_ON)(stack.bench)
app.command()(diff)
app.command()(adopt)
app.command()(check)


def main() -> None:
    """The console script."""
    app()
