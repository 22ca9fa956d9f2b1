"""Why there is no connection to Kafka, with real brokers. Each cause has its own message,
and each text says what to do."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backend.instance.settings import Settings
from backend.kafka.broker_check import wait_for_broker
from backend.kafka.clients import kafka_clients
from local.ports import LOOPBACK, free_ports
from model.kafka.config_providers import resolve
from model.kafka.obstacles import Obstacle, Step, find_obstacle
from model.problems import ConfigurationError
from queryable.cli.app import app
from queryable.cli.exit_codes import NoBroker
from queryable.cli.inspection import broker as inspection
from tests.support.brokers import DetouredBroker
from tests.support.secure_kafka.broker import SecureBroker
from tests.support.secure_kafka.certificates import Authority

[GONE] = free_ports(1)


def found(servers: str, table: dict[str, str]) -> Obstacle | None:
    return find_obstacle(servers, resolve(table, open, os.environ), "[kafka] of views.toml")


def check(obstacle: Obstacle | None, step: Step, what: str, remedy: str) -> None:
    assert obstacle is not None
    assert obstacle.step == step
    assert what in obstacle.what
    assert remedy in obstacle.remedy
    assert LOOPBACK not in obstacle.summary


CASES = {
    # client's mechanism, changes of its table, listener, what, remedy
    "no TLS, and the listener has it": (
        {}, "PLAIN", Step.TLS, "uses TLS", '"security.protocol" = "SSL", or "SASL_SSL"',
    ),
    "SASL without TLS": (
        {"security.protocol": "SASL_PLAINTEXT"}, "PLAIN", Step.TLS,
        "uses TLS", '"security.protocol" = "SASL_SSL"',
    ),
    "TLS, and the listener has none": (
        {"security.protocol": "SSL"}, "", Step.TLS,
        "does not use TLS", '"security.protocol" = "PLAINTEXT"',
    ),
    "SASL, and the listener has none": (
        {"security.protocol": "SASL_PLAINTEXT"}, "", Step.SASL,
        "does not use SASL", '"security.protocol" = "PLAINTEXT"',
    ),
    "TLS without SASL": (
        {"security.protocol": "SSL"}, "PLAIN", Step.SASL,
        "needs SASL (", '"security.protocol" = "SASL_SSL", "sasl.mechanism"',
    ),
    "another mechanism": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "PLAIN", Step.SASL,
        "does not have the mechanism GSSAPI, but ", "to one of them",
    ),
    "no certificate of the client": (
        {"security.protocol": "SSL"}, "TLS", Step.CERTIFICATE,
        "needs a certificate of the client", '"ssl.certificate.location"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_listener_that_does_not_fit_the_settings(case: str, secure_broker: SecureBroker) -> None:
    changes, listener, step, what, remedy = CASES[case]
    table = dict(changes)
    if "protocol" in "".join(changes):
        ca = {"ssl.ca.location": str(secure_broker.authority.path)}
        table = {"sasl.mechanism": "PLAIN", **ca, **changes}
    servers = secure_broker.address(listener) if listener else secure_broker.bootstrap_servers
    check(found(servers, table), step, what, remedy)


def test_certificates(secure_broker: SecureBroker, tmp_path: Path) -> None:
    table, address = secure_broker.table("PLAIN"), secure_broker.address("PLAIN")
    other = {**table, "ssl.ca.location": str(Authority(tmp_path).path)}
    check(found(address, other), Step.CERTIFICATE, "not trusted here", '"ssl.ca.location"')
    system = {name: value for name, value in table.items() if name != "ssl.ca.location"}
    check(found(address, system), Step.CERTIFICATE, "not trusted here", '"ssl.ca.location"')
    named = address.replace(LOOPBACK, "localhost")
    check(found(named, table), Step.CERTIFICATE, "for another name", "a name of the certificate")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "TLS"])
def test_a_broker_that_can_be_asked(mechanism: str, secure_broker: SecureBroker) -> None:
    table, address = secure_broker.table(mechanism), secure_broker.address(mechanism)
    assert found(address, table) is None
    [closed] = free_ports(1)
    assert found(f"{LOOPBACK}:{closed},{address}", table) is None
    assert found(secure_broker.bootstrap_servers, {}) is None


def test_a_wrong_password(secure_broker: SecureBroker) -> None:
    """librdkafka knows it, because only it sends the password."""
    table = {**secure_broker.table("PLAIN"), "sasl.password": "w-r-o-n-g"}
    broker = inspection.broker_of(secure_broker.address("PLAIN"), table, 3.0, Path("views.toml"))
    with pytest.raises(NoBroker, match="refuses the user or the password") as error:
        broker.topics()
    assert '"sasl.password"' in error.value.remedy
    assert "[kafka] of views.toml" in error.value.remedy
    assert "w-r-o-n-g" not in str(error.value)


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen(128)
        yield f"{LOOPBACK}:{listener.getsockname()[1]}"


def test_what_is_no_kafka(silent: str) -> None:
    [closed] = free_ports(1)
    refused = f"{LOOPBACK}:{closed}"
    check(found(refused, {}), Step.PORT, "(connection refused)", "start Kafka there")
    unknown = "no-such-host.invalid:9092"
    check(found(unknown, {}), Step.NAME, "no-such-host.invalid cannot be", "a DNS server")
    check(found(f"{unknown},{refused}", {}), Step.PORT, "(connection refused)", "start Kafka")
    short = find_obstacle(silent, {}, seconds=0.2)
    check(short, Step.KAFKA, "does not answer as Kafka does", "the broker's log")


@pytest.fixture(scope="module")
def advertising(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DetouredBroker]:
    """A broker with a listener that advertises a port at which nothing listens."""
    with DetouredBroker(tmp_path_factory.mktemp("advertising"), GONE) as running:
        yield running


def test_an_advertised_address_that_cannot_be_reached(
    advertising: DetouredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    advertised = f"{LOOPBACK}:{GONE}"
    servers = f"{LOOPBACK}:{advertising.detour_port}"
    views = tmp_path / "views.toml"
    views.write_text('[views.v]\ntopic = "t"\nkey = "string"\nvalue = "json"\n')
    for command in ("init t --force", "serve", "adopt shop", "check"):
        arguments = [*command.split(), "--timeout", "5"]
        arguments += [] if command == "check" else ["--bootstrap-servers", servers]
        done = CliRunner().invoke(app, arguments, env={"QUERYABLE_BOOTSTRAP_SERVERS": servers})
        text = " ".join(done.output.split())
        assert f"must connect to {advertised} (advertised.listeners)" in text, command
        assert "et advertised.listeners of the brokers" in text, command
    said: list[str] = []
    with pytest.raises(ConfigurationError, match=r"advertised\.listeners"):
        wait_for_broker(
            kafka_clients({}, servers),
            Settings(instance_id="b1", bootstrap_servers=servers, views=views),
            0.1,
            threading.Event(),
            said.append,
        )
    assert said == ["Kafka advertises addresses that cannot be reached from here"]
