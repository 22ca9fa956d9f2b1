"""The commands of `queryable`."""

from __future__ import annotations

from typing import Annotated

import typer

import queryable
from queryable.cli.commands import stack
from queryable.cli.commands.adopt import adopt
from queryable.cli.commands.append import append
from queryable.cli.commands.check import check
from queryable.cli.commands.count import count
from queryable.cli.commands.diff import diff
from queryable.cli.commands.get import get
from queryable.cli.commands.scan import scan
from queryable.cli.commands.time_ranges import sessions, versions, windows
from queryable.cli.commands.top import top
from queryable.cli.commands.topology import topology
from queryable.cli.commands.views import views
from queryable.cli.commands.watch import watch

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"queryable {queryable.__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Query Kafka topics over HTTP.

    The URL of the deployment comes from --url, else QUERYABLE_URL, else url in
    ~/.config/queryable/config.toml, else http://127.0.0.1:8080.

    Exit codes: 0 success, 1 not found, 2 usage error, 3 not available.
    """


for command in (
    get, scan, top, count, windows, sessions, versions, watch, append, views, topology,
    diff, adopt, check, stack.up, stack.down, stack.demo,
):  # fmt: skip
    app.command()(command)
app.command(context_settings=stack.PASS_THROUGH)(stack.bench)


def main() -> None:
    """The entry point of the console script."""
    app()
