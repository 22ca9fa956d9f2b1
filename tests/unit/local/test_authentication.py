"""The local stack with authentication: what it passes on, and what it needs."""

import stat
from pathlib import Path
from typing import Any

import pytest

from local import http
from local.commands import curl
from local.errors import LocalError
from local.settings import StackSettings
from local.stack.preflight import check_machine
from local.stack.services import (
    backend_environment,
    cluster_secret,
    create_cluster_secret,
    proxy_environment,
)
from local.stack.supervisor import Supervisor
from tests.unit.queryable.client.fake_server import RequestHandler, serving


def settings(**given: Any) -> StackSettings:
    return StackSettings(**given)


def test_a_stack_has_a_cluster_secret_of_its_own(tmp_path: Path) -> None:
    stack = settings(run_dir=tmp_path)
    create_cluster_secret(stack)
    path = cluster_secret(stack)
    assert path.parent == tmp_path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = path.read_text()
    assert len(secret.strip()) == 64
    create_cluster_secret(stack)
    assert path.read_text() == secret, "the processes of a running stack have it"
    for environment in (backend_environment(stack, 1, 1), proxy_environment(stack)):
        assert environment["QUERYABLE_CLUSTER_SECRET_FILE"] == str(path)


def test_a_secret_of_the_user_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = settings(run_dir=tmp_path, cluster_secret_file="mine")
    create_cluster_secret(given)
    # absolute, because the processes run in other folders
    assert cluster_secret(given) == tmp_path / "mine"
    assert list(tmp_path.iterdir()) == []


def test_a_secret_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="cannot write the cluster secret"):
        create_cluster_secret(settings(run_dir=tmp_path / "missing"))


def test_the_demo_with_authentication_needs_a_token() -> None:
    with pytest.raises(LocalError, match=r"set QUERYABLE_TOKEN.*queryable token --help"):
        check_machine(settings(auth="jwt", token=""), {})


def test_tls_is_refused_at_once() -> None:
    with pytest.raises(LocalError, match=r"QUERYABLE_TLS_CERT_FILE .* plain HTTP"):
        check_machine(settings(tls_cert_file="server.pem"), {})


def test_requests_have_the_token_and_no_output_does() -> None:
    with_token = settings(token="a-token\n")
    seen = []

    def respond(request: RequestHandler) -> None:
        seen.append(request.headers["Authorization"])
        request.respond(200, {})

    with serving(respond) as server:
        http.get(f"{server.url}/a", headers=with_token.headers)
        http.get(f"{server.url}/a", headers=settings(token="").headers)
    assert seen == ["Bearer a-token", None]
    assert "a-token" not in repr(with_token) + curl(with_token, "/a")
    assert '"Authorization: Bearer $QUERYABLE_TOKEN"' in curl(with_token, "/a")


def test_the_processes_do_not_inherit_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUERYABLE_TOKEN", "a-token")
    monkeypatch.setenv("QUERYABLE_AUTH", "jwt")
    (tmp_path / "logs").mkdir()
    supervisor = Supervisor(tmp_path)
    child = supervisor.start("child", ["env"], env={"QUERYABLE_PORT": "1"})
    child.process.wait()
    environment = child.log.read_text().splitlines()
    assert {"QUERYABLE_AUTH=jwt", "QUERYABLE_PORT=1"} <= set(environment)
    assert not any(line.startswith("QUERYABLE_TOKEN=") for line in environment)


def test_the_paths_that_processes_inherit_are_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUERYABLE_JWT_KEY_FILE", "key.pub")
    monkeypatch.setenv("QUERYABLE_VIEWS", "views.toml")
    (tmp_path / "logs").mkdir()
    child = Supervisor(tmp_path).start(
        "child", ["env"], env={"QUERYABLE_VIEWS": "/v"}, cwd=Path("/")
    )
    child.process.wait()
    environment = child.log.read_text().splitlines()
    assert {f"QUERYABLE_JWT_KEY_FILE={tmp_path}/key.pub", "QUERYABLE_VIEWS=/v"} <= set(environment)
