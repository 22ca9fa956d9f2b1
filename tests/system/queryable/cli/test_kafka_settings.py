"""`check`, `adopt` and the local stack read secrets of [kafka] from elsewhere, and show none."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.errors import LocalError
from local.kafka.connection import kafka_of
from local.settings import StackSettings
from local.stack.preflight import check_machine
from tests.support.brokers import PasswordBroker
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import SASL_USERS
from tests.system.queryable.cli.test_operations import run

[(USER, PASSWORD)] = SASL_USERS.items()
WRONG = "Wr0ng-S3cret"
TABLE = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": "${env:KAFKA_PASSWORD}",
}
# librdkafka quotes values of settings that it rejects
REJECTED = {**TABLE, "security.protocol": "${env:KAFKA_PASSWORD}"}


@pytest.fixture
def views(tmp_path: Path) -> Path:
    return tmp_path / "views.toml"


@pytest.mark.parametrize(
    ("table", "password", "said", "status"),
    [
        (TABLE, PASSWORD, "No topic is named nobodys", 1),
        (TABLE, WRONG, "refuses the user or the password", 3),
        (TABLE, "", "[kafka] sasl.password: the environment variable KAFKA_PASSWORD", 2),
        (REJECTED, WRONG, 'views.toml: Invalid value "${env:KAFKA_PASSWORD}"', 2),
    ],
)
def test_adopt(
    table: dict[str, str],
    password: str,
    said: str,
    status: int,
    broker: PasswordBroker,
    views: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views.write_text(views_toml(table))
    monkeypatch.setenv("KAFKA_PASSWORD", password)
    servers = ("--bootstrap-servers", broker.sasl_bootstrap_servers)
    done = run("adopt", "nobodys", *servers, "--kafka", str(views), "--timeout=2")
    assert said in done.output
    assert done.exit_code == status, done.output
    assert "--url" not in done.output
    assert WRONG.lower() not in done.output.lower()


@pytest.mark.parametrize(
    ("table", "password", "said"),
    [
        (TABLE, PASSWORD, "topic no-such-topic does not exist"),
        (TABLE, WRONG, "uthentication failed"),
        (TABLE, "", "[kafka] sasl.password: the environment variable KAFKA_PASSWORD"),
        (REJECTED, WRONG, r"views.toml: Invalid value \"${env:KAFKA_PASSWORD}\""),
    ],
)
def test_check(
    table: dict[str, str],
    password: str,
    said: str,
    broker: PasswordBroker,
    views: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views.write_text(views_toml(table, v={"topic": "no-such-topic"}))
    monkeypatch.setenv("KAFKA_PASSWORD", password)
    servers = ("--bootstrap-servers", broker.sasl_bootstrap_servers)
    done = run("check", *servers, "--views", str(views), "--timeout=2")
    assert " ".join(said.split()) in " ".join(done.output.split())
    assert (table is REJECTED) == ("correct the setting" in done.output)
    assert WRONG.lower() not in done.output.lower()


def test_a_secret_in_place_of_a_mechanism_is_not_shown(
    broker: PasswordBroker, views: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views.write_text(views_toml(TABLE | {"sasl.mechanism": "${env:KAFKA_PASSWORD}"}))
    monkeypatch.setenv("KAFKA_PASSWORD", WRONG)
    servers = ("--bootstrap-servers", broker.sasl_bootstrap_servers)
    done = run("adopt", "nobodys", *servers, "--kafka", str(views), "--timeout=2")
    assert done.exit_code in (2, 3)
    assert WRONG.lower() not in done.output.lower()


def test_the_local_stack(
    broker: PasswordBroker, views: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = broker.sasl_bootstrap_servers
    views.write_text(views_toml(TABLE, v={"topic": "t"}))
    monkeypatch.setenv("KAFKA_PASSWORD", "")
    with pytest.raises(LocalError, match="KAFKA_PASSWORD is not set"):
        kafka_of(servers, views)
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    assert kafka_of(servers, views)["sasl.password"] == PASSWORD
    views.write_text(views_toml(REJECTED, v={"topic": "t"}))
    monkeypatch.setenv("KAFKA_PASSWORD", WRONG)
    with pytest.raises(LocalError, match="env:KAFKA_PASSWORD") as raised:
        check_machine(StackSettings(bootstrap_servers=servers, views=views), {})
    assert WRONG.lower() not in str(raised.value).lower()
    assert raised.value.__cause__ is None
