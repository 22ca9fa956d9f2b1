"""`queryable --version`, and the help of the commands."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import walk_packages

import pytest
from typer.testing import CliRunner

import queryable
from queryable.cli import commands
from queryable.cli.app import COMMAND_MODULES, SECTIONS, app
from queryable.cli.declaration.command import name_of
from tests.unit.queryable.client.fake_server import RequestHandler, serving

COMMANDS = [name_of(command) for command in app.registered_commands]


def run(*arguments: str, columns: int = 80) -> str:
    env = {"COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns)}
    done = CliRunner().invoke(app, list(arguments), env=env)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_version() -> None:
    assert run("--version") == f"queryable {queryable.__version__}\n"


def test_every_module_of_commands_is_listed() -> None:
    prefix = f"{commands.__name__}."
    found = [info.name for info in walk_packages(commands.__path__, prefix) if not info.ispkg]
    assert sorted(COMMAND_MODULES) == sorted(name.removeprefix(prefix) for name in found)


def test_help_lists_every_command_in_groups_with_a_whole_sentence() -> None:
    text = run("--help")
    sections = re.findall(r"^(\S.*):\n((?:  .*\n)+)", text.partition("Queries:")[0], re.M)
    assert [title for title, _ in sections] == ["Options"]
    rest = text[text.index("Queries:") :]
    groups = re.findall(r"^(\S.*):\n((?:  .*\n?)+)", rest, re.M)
    assert [title for title, _ in groups] == list(SECTIONS)
    listed = [re.findall(r"^  (\S+)", lines, re.M) for _, lines in groups]
    assert [name for names in listed for name in names] == COMMANDS
    assert listed[0][:4] == ["get", "scan", "top", "aggregate"]
    assert listed[-1] == ["up", "down", "demo", "bench"], "for developers"
    joined = [" ".join(lines.split()) for _, lines in groups]
    for command in app.registered_commands:
        assert command.callback is not None
        doc = (command.callback.__doc__ or "").strip()
        summary = re.split(r"(?<=\.)\s", doc)[0]
        assert any(" ".join(summary.split()) in lines for lines in joined), summary
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "bench"])
def test_help_of_a_command_has_examples_and_fits_the_terminal(command: str) -> None:
    text = run(command, "--help")
    assert f"    queryable {command}" in text
    assert not re.search(r"<\w+(\[\w+\])?>(?!\.dead)", text.replace("<topic>", "")), "a type"
    assert "{" not in text.splitlines()[0], "an argument as people write it"
    assert max(map(len, text.splitlines())) <= 80


def test_connection_options_may_be_before_or_after_the_command(tmp_path: Path) -> None:
    tokens: list[str | None] = []

    def respond(request: RequestHandler) -> None:
        tokens.append(request.headers["authorization"])
        request.respond(200, b'{"views": []}')

    with serving(respond) as server:
        for arguments in (["--url", server.url, "views"], ["views", "--url", server.url]):
            done = CliRunner().invoke(app, arguments, env={"QUERYABLE_URL": "http://127.0.0.1:9"})
            assert done.stderr == "the deployment has no views\n"
        # that of the command takes precedence, and the next command starts afresh
        other = ["--url", "http://127.0.0.1:9", "views", "--url", server.url]
        assert CliRunner().invoke(app, other).exit_code == 1
        done = CliRunner().invoke(app, ["views"], env={"QUERYABLE_URL": server.url})
        assert done.exit_code == 1
        assert set(server.paths) == {"/views"}
        (tmp_path / "token").write_text("a.b.c")
        CliRunner().invoke(app, ["--token-file", f"{tmp_path}/token", "--url", server.url, "views"])
        assert tokens == [None] * (len(tokens) - 1) + ["Bearer a.b.c"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("get a b --max-lag -3", "'--max-lag': Input should be greater than or equal to 0"),
        ("get a b --max-lag many", "'--max-lag': Input should be a valid integer"),
        ("get a b --max-staleness 3", "'--max-staleness': \"3\" is not a valid duration"),
        ("scan a --limit 0", "'--limit': Input should be greater than or equal to 1"),
        ("get a b --stale perhaps", "'--stale': 'perhaps' is not one of allow, never."),
        ("count a --stale perhaps", "'--stale': 'perhaps' is not one of allow, never."),
        (
            "pipeline a pase",
            "for 'ACTION': 'pase' is not one of pause, resume, restart, rebuild.",
        ),
        ("pipeline a pase", "pipeline [OPTIONS] VIEW [ACTION]"),
        ("scan a --limti 3", "No such option: --limti"),
        ("serve --port 99999", "'--port': Input should be less than or equal to 65535"),
        ("scan a --json --csv", "Give only one of --json, --csv and --vertical."),
        ("check --timeout -1", "--timeout -1 is invalid: it must be greater than 0"),
        ("--timeout 0 check", "--timeout 0 is invalid"),
        ("--timeout inf adopt shop --yes", "--timeout inf is invalid"),
        ("init topic --yes --timeout nan", "--timeout nan is invalid"),
        ("gett a b", "No such command 'gett'. Did you mean 'get'"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(arguments: str, message: str) -> None:
    done = CliRunner().invoke(app, arguments.split(), env={"QUERYABLE_URL": "http://127.0.0.1:9"})
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
