"""The commands of `queryable`."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import typer

import queryable
from queryable.cli.config import Connection, Timeout, set_connection
from queryable.cli.declaration.command import COMMANDS, name_of
from queryable.cli.declaration.help import Group
from queryable.cli.exit_codes import UNAVAILABLE
from queryable.cli.output import escape_other_characters, open_closed_streams

SECTIONS: Mapping[str, Sequence[str]] = {
    "Queries": (
        "get", "scan", "top", "aggregate", "count", "sql", "time_ranges", "watch", "append",
        "interactive.shell", "interactive.queries",
    ),
    "Views and deployments": (
        "description.views", "description.describe", "description.fields", "description.indexes",
        "topology", "diff", "mcp",
        "switching.view_versions", "switching.deployments", "pipeline", "instances",
        "wait_redundant",
    ),
    "Your own Kafka": (
        "start.init", "start.serve", "start.sources", "start.derive", "adopt", "check", "token",
    ),
    "Development of this project, in a checkout": ("stack",),
}  # fmt: skip
"""The modules of `queryable.cli.commands`, in the groups and the order of `queryable --help`."""

COMMAND_MODULES = tuple(name for names in SECTIONS.values() for name in names)


class _Commands(Group):
    sections: dict[str, list[str]] = {}  # noqa: RUF012


app = typer.Typer(
    cls=_Commands,
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
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version and exit.",
    ),
    url: str | None = typer.Option(
        None, "--url", metavar="URL", help="URL of the proxy or a backend: see above."
    ),
    timeout: Timeout = None,
    token_file: Path | None = typer.Option(  # noqa: B008
        None, "--token-file", metavar="FILE", help="File with the bearer token: see above."
    ),
) -> None:
    """Query Kafka topics over HTTP.

    The URL of the deployment comes from --url, else QUERYABLE_URL, else url in
    ~/.config/queryable/config.toml, else http://127.0.0.1:8080.

    The token comes from --token-file, else QUERYABLE_TOKEN, else token_file in the same file.
    `queryable token` makes one.

    --url, --timeout and --token-file may be before or after the command.

    Exit codes: 0 success, 1 not found, 2 usage error, 3 not available.
    """  # fmt: skip
    set_connection(Connection(url, timeout, token_file))


for _title, _names in SECTIONS.items():
    for _name in _names:
        _module = import_module(f"queryable.cli.commands.{_name}")
        _commands = COMMANDS[_module.__name__]
        app.registered_commands += _commands
        _Commands.sections.setdefault(_title, []).extend(map(name_of, _commands))


def main() -> None:
    """The entry point of the console script."""
    open_closed_streams()
    escape_other_characters()
    try:
        app()
    except Exception:
        traceback.print_exc()
        raise SystemExit(UNAVAILABLE) from None
