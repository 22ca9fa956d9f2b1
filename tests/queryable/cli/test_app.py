"""`queryable --version`, and the help of the commands."""

from __future__ import annotations

from pkgutil import iter_modules

import pytest
from typer.testing import CliRunner

import queryable
from queryable.cli import commands
from queryable.cli.app import COMMAND_MODULES, app

COMMANDS = [str(c.callback.__name__) for c in app.registered_commands if c.callback]


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_version() -> None:
    assert run("--version") == f"queryable {queryable.__version__}\n"


def test_every_module_of_commands_is_listed() -> None:
    assert sorted(COMMAND_MODULES) == sorted(info.name for info in iter_modules(commands.__path__))


def test_help_lists_every_command_in_order_with_a_whole_sentence() -> None:
    text = run("--help")
    summaries = dict(line.split(maxsplit=1) for line in text.partition("Commands:")[2].splitlines()
                     if line.strip())  # fmt: skip
    assert list(summaries) == COMMANDS
    assert list(summaries)[:4] == ["get", "scan", "top", "aggregate"]
    assert all(summary.endswith(".") and "..." not in summary for summary in summaries.values())
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "bench"])
def test_help_of_a_command_has_examples_and_fits_the_terminal(command: str) -> None:
    text = run(command, "--help")
    assert f"    queryable {command}" in text
    assert max(map(len, text.splitlines())) <= 80
