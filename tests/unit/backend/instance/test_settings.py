"""Tests of the settings from the environment: defaults, derived values, and errors."""

import socket
from pathlib import Path

import pytest
from yarl import URL

from backend.instance.settings import Settings, check_port, load_settings
from local.ports import free_ports
from model.problems import ConfigurationError
from model.topology import Member


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"QUERYABLE_{name.upper()}", raising=False)


def test_the_defaults() -> None:
    settings = load_settings()
    assert settings.bootstrap_servers == "127.0.0.1:9092"
    assert (settings.host, settings.port) == ("127.0.0.1", 8081)
    assert settings.instance_id == "127.0.0.1-8081"
    assert (settings.advertised_host, settings.advertised_port) == ("127.0.0.1", 8081)
    assert (settings.data_dir, settings.views) == (Path("data"), Path("views.toml"))


def test_the_instance_id_defaults_to_the_advertised_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUERYABLE_HOST", "0.0.0.0")
    monkeypatch.setenv("QUERYABLE_PORT", "9000")
    monkeypatch.setenv("QUERYABLE_ADVERTISED", "b1.example")
    settings = load_settings()
    assert settings.instance_id == "b1.example-9000"
    assert (settings.advertised_host, settings.advertised_port) == ("b1.example", 9000)
    monkeypatch.setenv("QUERYABLE_ADVERTISED", "b1.example:80")
    assert load_settings().instance_id == "b1.example-80"
    monkeypatch.setenv("QUERYABLE_INSTANCE_ID", "b1")
    assert load_settings().instance_id == "b1"
    assert load_settings().advertised_port == 80


@pytest.mark.parametrize("value", ["b1:8081", "127.0.0.1:8081", "http://b1", "[::1]:8081", "[::1"])
def test_a_host_has_no_port(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("QUERYABLE_HOST", value)
    with pytest.raises(ConfigurationError, match="without a scheme and a port"):
        load_settings()


@pytest.mark.parametrize(
    "value",
    [
        "http://b1",
        "http://b1:80",
        "b1:",
        "b1:0",
        "b1:65536",
        "b1:x",
        "b1:80:80",
        ":80",
        "[::1",
        "[::1]:",
    ],
)
def test_an_advertised_address_is_host_and_port(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Other instances could not reach it."""
    monkeypatch.setenv("QUERYABLE_ADVERTISED", value)
    with pytest.raises(
        ConfigurationError, match=r"ADVERTISED: .*host or host:port, without a scheme"
    ):
        load_settings()


@pytest.mark.parametrize("name", ["HOST", "ADVERTISED"])
@pytest.mark.parametrize("address", ["fd00::1", "[fd00::1]", "[fd00::1]:8081"])
def test_an_ipv6_address_needs_no_brackets(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str
) -> None:
    if name == "HOST":
        address = address.removesuffix(":8081")
    monkeypatch.setenv(f"QUERYABLE_{name}", address)
    settings = load_settings()
    assert settings.advertised_host == "[fd00::1]"
    me = Member(settings.instance_id, settings.advertised_host, settings.advertised_port)
    assert (URL(me.origin).host, URL(me.origin).port) == ("fd00::1", 8081)


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", "[::1]", "::"])
def test_an_instance_can_listen(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("QUERYABLE_HOST", address)
    monkeypatch.setenv("QUERYABLE_PORT", str(port))
    settings = load_settings()
    check_port(settings)
    with socket.create_server(("localhost", port)):
        if address in ("127.0.0.1", "localhost"):
            with pytest.raises(ConfigurationError, match="cannot listen"):
                check_port(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", ""),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("SESSION_TIMEOUT_MS", "10"),
        ("END_OFFSET_INTERVAL", "0"),
        ("SCHEMA_MISSING_AFTER", "-1"),
        ("MAX_IN_FLIGHT", "0"),
        ("COPY_BANDWIDTH", "inf"),
        ("OTLP_RATIO", "1e300"),
        ("OTLP_RATIO", "nan"),
    ],
)
def test_an_invalid_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"QUERYABLE_{name}", value)
    with pytest.raises(ConfigurationError) as error:
        load_settings()
    assert str(error.value).startswith(f"QUERYABLE_{name}: ")
    assert repr(value) in str(error.value)


def test_all_invalid_values_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYABLE_PORT", "x")
    monkeypatch.setenv("QUERYABLE_MAX_STREAMS", "y")
    with pytest.raises(ConfigurationError, match=r"QUERYABLE_PORT.*; QUERYABLE_MAX_STREAMS"):
        load_settings()


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().port = 1


def test_every_setting_has_a_description() -> None:
    assert all(field.description for field in Settings.model_fields.values())
