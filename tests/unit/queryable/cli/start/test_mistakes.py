"""Mistakes of new users: `queryable init` and `serve` say what to do, without a stack trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from local.ports import LOOPBACK, free_ports
from queryable.cli.app import app

VIEW = '[views.orders]\ntopic = "{topic}"\nkey = "string"\nvalue = "json"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("QUERYABLE_BOOTSTRAP_SERVERS", "QUERYABLE_RUN_DIR", "QUERYABLE_INSTANCES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_serve_without_a_file_names_init() -> None:
    done = run("serve")
    assert done.exit_code == 2
    assert "views.toml does not exist. `queryable init` writes it" in done.stderr


def test_serve_of_a_folder_names_the_argument(folder: Path) -> None:
    done = run("serve", ".")
    assert done.exit_code == 2
    assert done.stderr == "queryable: Cannot read .: Is a directory.\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[views.a]\ntopic = "a"\nkey = "string"\nvalue = "jsno"\n', "line 4"),
        ("[views.a", "not TOML"),
        ("", "no views are declared"),
    ],
)
def test_a_file_with_a_mistake_is_named_with_its_line(
    folder: Path, text: str, message: str
) -> None:
    (folder / "views.toml").write_text(text)
    done = run("serve")
    assert done.exit_code == 2
    assert message in done.stderr
    assert "docs/reference/views.md" in done.stderr
    assert ".." not in done.stderr


@pytest.mark.parametrize("command", ["serve", "init orders"])
@pytest.mark.slow
def test_a_broker_that_does_not_answer_is_named(folder: Path, command: str) -> None:
    (folder / "views.toml").write_text(VIEW.format(topic="orders"))
    [port] = free_ports(1)
    force = ["--force"] if command.startswith("init") else []
    servers = ["--bootstrap-servers", f"{LOOPBACK}:{port}", "--timeout", "1"]
    done = run(*command.split(), *servers, *force)
    assert done.exit_code == 3
    assert f"nothing listens at {LOOPBACK}:{port} (connection refused)" in done.stderr
    assert "Start Kafka there" in done.stderr
    assert "--bootstrap-servers" in done.stderr


@pytest.mark.parametrize("command", ["serve", "init orders --kafka views.toml"])
def test_a_setting_that_kafka_refuses_is_named_with_its_file(folder: Path, command: str) -> None:
    table = '[kafka]\n"security.protocol" = "pigeon"\n'
    (folder / "views.toml").write_text(VIEW.format(topic="orders") + table)
    force = ["--force"] if command.startswith("init") else []
    done = run(*command.split(), *force)
    assert done.exit_code == 2
    assert done.stderr == (
        'queryable: [kafka] of views.toml: Invalid value "pigeon" for configuration property '
        '"security.protocol".\n'
    )


def test_init_adds_no_views_to_another_connection(folder: Path) -> None:
    (folder / "views.toml").write_text(VIEW.format(topic="orders") + '[kafka]\n"client.id" = "a"\n')
    (folder / "connection.toml").write_text('[kafka]\n"client.id" = "b"\n')
    done = run("init", "orders", "--add", "--kafka", "connection.toml")
    assert done.exit_code == 2
    assert "[kafka] of views.toml has other settings" in done.stderr


def test_init_without_a_terminal_needs_a_topic() -> None:
    done = run("init")
    assert done.exit_code == 2
    assert "Name a TOPIC" in done.stderr
