"""What keeps a backend from starting is told at once: what, where, and what to do."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from local.ports import free_ports
from tests.support.backends import Backend
from tests.support.deployment import Deployment, views_toml

pytestmark = pytest.mark.system

GOOD = views_toml(v={"topic": "t", "path": "/messages"})


def refusal(backend: Backend, **settings: str) -> str:
    """Everything that a backend says that does not start."""
    began = time.monotonic()
    backend.uses_command = True
    status = backend.launch(**settings).wait_end(40)
    said = backend.log()
    assert status > 0, said
    assert "Traceback" not in said
    assert time.monotonic() - began < 20
    return said


@pytest.fixture
def nowhere(tmp_path: Path) -> Deployment:
    """A deployment whose broker is not there: what is wrong is told before it is missed."""
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
def test_a_broken_views_toml(nowhere: Deployment, case: str) -> None:
    text, told = BROKEN_VIEWS[case]
    nowhere.views_path.write_text(text)
    with nowhere:
        said = refusal(nowhere.new())
    assert str(nowhere.views_path) in said
    for part in told:
        assert part in said


def test_no_views_toml(nowhere: Deployment) -> None:
    with nowhere:
        said = refusal(nowhere.new(), views=str(nowhere.folder / "missing.toml"))
    assert "missing.toml" in said
    assert "QUERYABLE_VIEWS" in said


def test_a_bad_setting(nowhere: Deployment) -> None:
    with nowhere:
        said = refusal(nowhere.new(), port="eighty", session_timeout_ms="5")
    for part in ("QUERYABLE_PORT", "eighty", "QUERYABLE_SESSION_TIMEOUT_MS"):
        assert part in said


def test_a_taken_port(nowhere: Deployment) -> None:
    with nowhere, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(nowhere.new(), port=str(port))
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "QUERYABLE_PORT" in said


def test_a_data_folder_that_cannot_be_written(nowhere: Deployment) -> None:
    (nowhere.folder / "file").write_text("in the way")
    with nowhere:
        said = refusal(nowhere.new(), data_dir=str(nowhere.folder / "file" / "data"))
    assert f"cannot write to the data folder {nowhere.folder}/file/data: " in said
    assert "QUERYABLE_DATA_DIR" in said


def test_a_data_folder_in_use(nowhere: Deployment) -> None:
    with nowhere:
        first = nowhere.new().launch()
        first.wait_listening()
        said = refusal(nowhere.new(), data_dir=str(first.data_dir))
        assert f"{first.data_dir} is in use by another instance" in said
        assert "QUERYABLE_DATA_DIR" in said
        assert first.is_running
