"""Tests of errors in [kafka] at the start of an instance: they name the setting, and quote no
secret."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from backend.instance.application import Application
from backend.instance.constants import Constants
from backend.instance.settings import Settings, read_views
from backend.kafka.clients import kafka_clients
from model.problems import ConfigurationError
from tests.support.deployment import views_toml
from tests.support.secure_kafka.certificates import Authority

SECRET = "s3cret-of-kafka"
SASL = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "${file:/DIR/secret}"}


@pytest.mark.parametrize("form", ["${file:/DIR/secret}", SECRET])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        # librdkafka quotes values of settings that it rejects
        ({"acks": "SECRET"}, "Invalid value for configuration property"),
        ({"security.protocol": "SECRET"}, "Invalid value"),
        ({"no.such.setting": "SECRET"}, "No such configuration property"),
        ({"sasl.password": "SECRET", "security.protocol": "none"}, 'Invalid value "none"'),
        (
            {
                "security.protocol": "SSL",
                "ssl.certificate.location": "/DIR/client.crt",
                "ssl.key.location": "/DIR/client.key",
                "ssl.key.password": "SECRET",
            },
            "ssl.key.location",
        ),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.method is missing"),
        ({"sasl.password": "${env:NO_SUCH_VARIABLE}"}, "NO_SUCH_VARIABLE is not set"),
        ({"ssl.cipher.suites": "SECRET"}, "kafka-python has no counterpart"),
    ],
)
def test_no_error_quotes_a_secret(
    changed: dict[str, str], message: str, form: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    Authority(tmp_path).issue("client", "another password")
    table = {
        name: value.replace("SECRET", form).replace("/DIR", str(tmp_path))
        for name, value in {**SASL, **changed}.items()
    }
    views = tmp_path / "views.toml"
    views.write_text(views_toml(table, v={"topic": "t"}))
    settings = Settings(views=views, data_dir=tmp_path / "data")
    with pytest.raises(ConfigurationError) as raised:
        Application(settings, read_views(views), Constants())
    assert message in str(raised.value)
    assert "[kafka]" in str(raised.value)
    assert SECRET not in "".join(traceback.format_exception(raised.value))  # with all causes


def test_the_settings_of_clients_have_no_secrets_in_their_text(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    table = {name: value.replace("/DIR", str(tmp_path)) for name, value in SASL.items()}
    clients = kafka_clients(table, "a:1,b:2")
    assert clients.librdkafka["sasl.password"] == SECRET
    assert clients.kafka_python["sasl_plain_password"] == SECRET
    assert clients.kafka_python["bootstrap_servers"] == ["a:1", "b:2"]
    assert SECRET not in repr(clients)
