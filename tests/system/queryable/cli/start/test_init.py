"""`queryable init`: questions on a terminal, and the settings of the connection."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from local.errors import LocalError
from local.kafka.broker import Broker
from local.ports import free_ports
from local.settings import REPOSITORY
from queryable.cli.app import app
from queryable.cli.start.preflight import check_views
from tests.support.brokers import PasswordBroker
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer
from tests.system.queryable.terminal import Terminal


def test_init_asks_on_a_terminal(broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(2)
    Writer(broker.bootstrap_servers).send(topic, [(b"a", b"1"), (b"b", b"2")])
    (tmp_path / "views.toml").write_text(
        '[views.other]\ntopic = "other"\nkey = "string"\nvalue = "json"\n'
    )
    [unused] = free_ports(1)
    env = {name: value for name, value in os.environ.items() if name[:10] != "QUERYABLE_"}
    env["PYTHONPATH"] = str(REPOSITORY)
    tool = ["env", f"--chdir={tmp_path}", sys.executable, "-m", "queryable"]
    command = [*tool, "init", "--timeout", "2"]
    answers = [
        ("stop?", "add"),
        ("Kafka brokers [127.0.0.1:9092]: ", f"127.0.0.1:{unused}"),
        ("Cannot read from the broker", broker.bootstrap_servers),
        ("Topic (name or number)", f"{topic}s"),
        (f"did you mean {topic}?", topic),
        ("key [string]: ", ""),
        ("value [string]: ", "jsn"),
        ("Unknown value 'jsn'", "json"),
    ]
    with Terminal(command, env, columns=80) as terminal:
        for question, answer in answers:
            try:
                terminal.wait_for(lambda text, wanted=question: wanted in " ".join(text.split(" ")))  # type: ignore[misc]
            except LocalError as error:
                raise AssertionError(question) from error
            terminal.send_keys(f"{answer}\n")
        # the partitions of two keys fit several partitioners
        terminal.wait_for(lambda text: "partitioner [" in text or "wrote" in text)
        terminal.send_keys("\n")
        assert terminal.wait() == 0, terminal.text
    text = (tmp_path / "views.toml").read_text()
    assert "[views.other]" in text
    assert f"[views.{topic}]" in text
    assert 'value = "json"' in text
    assert "TODO" not in text


def test_settings_of_the_connection_are_copied_and_their_secrets_stay_references(
    broker: PasswordBroker, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(1)
    Writer(broker.bootstrap_servers).send(topic, [(b"a", b"1")])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "connection.toml").write_text(
        '[kafka]\n"security.protocol" = "SASL_PLAINTEXT"\n"sasl.mechanism" = "PLAIN"\n'
        '"sasl.username" = "queryable"\n"sasl.password" = "${env:OF_KAFKA}"\n'
    )
    servers = broker.sasl_bootstrap_servers
    command = ["init", topic, "--bootstrap-servers", servers, "--kafka", "connection.toml", "--yes"]

    def run(password: str) -> Result:
        return CliRunner().invoke(app, [*command, "--timeout", "5"], env={"OF_KAFKA": password})

    wrong = run("wrong-password")
    assert wrong.exit_code == 3
    assert "uthentication failed" in wrong.stderr
    assert "wrong-password" not in wrong.output
    assert not (tmp_path / "views.toml").exists()
    assert run("secret").exit_code == 0
    assert '"sasl.password" = "${env:OF_KAFKA}"' in (tmp_path / "views.toml").read_text()
    # `serve` connects with it
    monkeypatch.setenv("OF_KAFKA", "secret")
    assert topic in check_views(Path("views.toml"), servers, 5.0)
