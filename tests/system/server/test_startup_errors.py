"""Errors at startup say what is wrong, where, and what to do."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from local.ports import free_ports
from tests.support.backends import Backend
from tests.support.deployment import Deployment, views_toml
from tests.support.security.cluster_secret import SECRET, write_secrets

GOOD = views_toml(v={"topic": "t", "path": "/messages"})


def refusal(backend: Backend, expected: int = 2, **settings: str) -> str:
    """The log of a backend that fails to start, with the status `expected`: a supervisor does not
    start it again after 2."""
    began = time.monotonic()
    backend.uses_command = True
    backend.constants.clear()  # as users run it
    status = backend.launch(**settings).wait_end(40)
    log = backend.log()
    assert status == expected, log
    assert "Traceback" not in log
    assert time.monotonic() - began < 20
    return log


@pytest.fixture
def no_broker(tmp_path: Path) -> Deployment:
    """A deployment without a broker: these errors are reported before it is needed."""
    [port] = free_ports(1)
    return Deployment(tmp_path / "deployment", f"127.0.0.1:{port}", GOOD)


BROKEN_VIEWS = {
    "not TOML": ("[views.v\ntopic = 1", ["not TOML", "line 1"]),
    "unknown key format": (
        '[views.v]\ntopic = "t"\nkey = "strnig"\nvalue = "json"\n',
        ["line 3", "[views.v], key", "strnig", "string, bytes"],
    ),
    "unknown Kafka setting": (
        views_toml({"sasl.mechansm": "PLAIN"}, v={"topic": "t"}),
        ["[kafka]", "sasl.mechansm"],
    ),
    "bad Kafka value": (
        views_toml({"security.protocol": "carrier-pigeon"}, v={"topic": "t"}),
        ["[kafka]", "security.protocol"],
    ),
}


@pytest.mark.parametrize("case", BROKEN_VIEWS)
def test_an_invalid_views_file_is_reported(no_broker: Deployment, case: str) -> None:
    text, error_fragments = BROKEN_VIEWS[case]
    no_broker.views_path.write_text(text)
    with no_broker:
        log = refusal(no_broker.new())
    assert str(no_broker.views_path) in log
    for part in error_fragments:
        assert part in log


def test_a_missing_views_file_is_reported(no_broker: Deployment) -> None:
    with no_broker:
        log = refusal(no_broker.new(), views=str(no_broker.folder / "missing.toml"))
    assert "missing.toml" in log
    assert "QUERYABLE_VIEWS" in log


def test_an_invalid_setting_is_reported(no_broker: Deployment) -> None:
    with no_broker:
        log = refusal(no_broker.new(), port="eighty", session_timeout_ms="5")
    for part in ("QUERYABLE_PORT", "eighty", "QUERYABLE_SESSION_TIMEOUT_MS"):
        assert part in log


def test_authentication_without_keys_is_reported(no_broker: Deployment) -> None:
    with no_broker:
        log = refusal(no_broker.new(), auth="jwt")
    assert "Booting worker" not in log
    assert "QUERYABLE_AUTH=jwt needs one of QUERYABLE_JWT_KEY_FILE and QUERYABLE_JWT_JWKS" in log


def test_a_cluster_secret_that_others_can_read_is_reported(no_broker: Deployment) -> None:
    path = write_secrets(no_broker.folder / "secret", SECRET)
    path.chmod(0o644)
    with no_broker:
        log = refusal(no_broker.new(), cluster_secret_file=str(path))
    assert f"QUERYABLE_CLUSTER_SECRET_FILE: {path}: other users can read or change it" in log
    assert SECRET not in log


def test_a_wrong_certificate_is_reported(no_broker: Deployment) -> None:
    file = no_broker.folder / "server.pem"
    file.write_text("no certificate")
    with no_broker:
        log = refusal(no_broker.new(), tls_cert_file=str(file), tls_key_file=str(file))
    assert "Booting worker" not in log
    assert f"QUERYABLE_TLS_CERT_FILE: {file} has no certificates in PEM" in log


def test_a_port_in_use_is_reported(no_broker: Deployment) -> None:
    with no_broker, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        log = refusal(no_broker.new(), port=str(port))
    assert f"cannot listen on 127.0.0.1:{port}" in log
    assert "QUERYABLE_PORT" in log


def test_an_unwritable_data_folder_is_reported(no_broker: Deployment) -> None:
    (no_broker.folder / "file").write_text("in the way")
    with no_broker:
        log = refusal(no_broker.new(), 3, data_dir=str(no_broker.folder / "file" / "data"))
    assert f"cannot write to the data folder {no_broker.folder}/file/data: " in log
    assert "QUERYABLE_DATA_DIR" in log


def test_a_data_folder_in_use_is_reported(no_broker: Deployment) -> None:
    with no_broker:
        first = no_broker.new().launch()
        first.wait_listening()
        log = refusal(no_broker.new(), 3, data_dir=str(first.data_dir))
        assert f"{first.data_dir} is in use by another instance" in log
        assert "QUERYABLE_DATA_DIR" in log
        assert first.is_running
