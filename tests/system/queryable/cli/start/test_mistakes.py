"""Mistakes of new users: `queryable init` and `serve` say what to do, without a stack trace."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from local.kafka.broker import Broker
from local.ports import LOOPBACK
from local.stack import nginx
from queryable.cli.app import app
from queryable.cli.commands.start import serve as serve_command
from tests.support.plugins.fixtures import MakeTopic

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


def test_a_topic_that_does_not_exist_is_named_with_a_similar_one(
    broker: Broker, make_topic: MakeTopic, folder: Path
) -> None:
    topic = make_topic(1)
    (folder / "views.toml").write_text(VIEW.format(topic=f"{topic}s"))
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    done = run("serve", *servers)
    assert done.exit_code == 2
    assert f"{topic}s of view orders does not exist; did you mean {topic}?" in done.stderr
    done = run("init", f"{topic}s", *servers, "--force")
    assert done.exit_code == 2
    assert f"did you mean {topic}?" in done.stderr


def test_a_port_in_use_is_named_with_the_option(
    broker: Broker, make_topic: MakeTopic, folder: Path
) -> None:
    (folder / "views.toml").write_text(VIEW.format(topic=make_topic(1)))
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        done = run("serve", "--bootstrap-servers", broker.bootstrap_servers, "--port", str(port))
    assert done.exit_code == 3
    assert f"port {port} on {LOOPBACK} is used by another program" in done.stderr
    assert "choose another port with --port" in done.stderr


def test_programs_that_are_missing_are_named(
    broker: Broker, make_topic: MakeTopic, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "views.toml").write_text(VIEW.format(topic=make_topic(1)))
    monkeypatch.setattr(nginx.shutil, "which", lambda *_, **__: None)
    monkeypatch.setenv("QUERYABLE_WITHOUT_NGINX", "no")
    done = run("serve", "--bootstrap-servers", broker.bootstrap_servers)
    assert done.exit_code == 3
    assert "nginx is not installed. On Debian: `apt install nginx libnginx-mod" in done.stderr
    monkeypatch.setattr(serve_command, "find_spec", lambda name: None)
    done = run("serve")
    assert done.exit_code == 2
    assert "pip install '.[server]'" in done.stderr
