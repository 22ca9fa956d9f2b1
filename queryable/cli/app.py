"""The commands of `queryable`."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

import queryable

COMMAND_MODULES = (
    "get",
    "scan",
    "top",
    "aggregate",
    "count",
    "time_ranges",
    "watch",
    "append",
    "views",
    "topology",
    "diff",
    "view_versions",
    "pipeline",
    "adopt",
    "check",
    "token",
    "stack",
)
"""The modules of `queryable.cli.commands`, in the order of `queryable --help`."""

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

    The token comes from --token-file, else QUERYABLE_TOKEN, else token_file in the same file.
    `queryable token` makes one.

    Exit codes: 0 success, 1 not found, 2 usage error, 3 not available.
    """


for name in COMMAND_MODULES:
    module = import_module(f"queryable.cli.commands.{name}")
    app.registered_commands.extend(module.app.registered_commands)


def main() -> None:
    """The entry point of the console script."""
    app()
