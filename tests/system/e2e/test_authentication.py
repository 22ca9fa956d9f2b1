"""`make up` and the console with authentication, as docs/security/authentication.md shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import http
from local.kafka.broker import Broker
from local.ports import LOOPBACK, free_ports, is_free
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer
from tests.system.e2e.demo import ROOT, ports_in_a_row

INSTANCES = 2
UP = 120.0  # s; some 10 on a quiet machine
KEY = "a"


class Stack:
    """What a user has in a shell: variables, a key and a token. `up` starts the stack."""

    def __init__(self, folder: Path, bootstrap_servers: str, views: str) -> None:
        [self.proxy_port] = free_ports(1)
        self.backend_ports = ports_in_a_row(INSTANCES)
        self.folder, self.key_file, self.token_file = folder, folder / "key", folder / "token"
        (folder / "views.toml").write_text(views)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUERYABLE_", "DEMO_"))}
        self.environment = {
            **kept,
            "QUERYABLE_BOOTSTRAP_SERVERS": bootstrap_servers,
            "QUERYABLE_APPLICATION_ID": folder.name,
            "QUERYABLE_VIEWS": str(folder / "views.toml"),
            "QUERYABLE_RUN_DIR": str(folder / "run"),
            "QUERYABLE_PROXY_PORT": str(self.proxy_port),
            "QUERYABLE_BACKEND_PORT": str(self.backend_ports[0]),
            "QUERYABLE_INSTANCES": str(INSTANCES),
            "QUERYABLE_URL": self.url,
            "QUERYABLE_AUTH": "jwt",
            "QUERYABLE_JWT_KEY_FILE": f"{self.key_file}.pub",
        }
        signed = self.console("token", "read:*", "metrics", f"--key-file={self.key_file}")
        assert signed.returncode == 0, signed.stderr
        self.token = signed.stdout.strip()
        self.token_file.write_text(self.token)
        self.token_file.chmod(0o600)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.proxy_port}"

    def local(self, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, "-m", "local", command], **variables)

    def console(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, "-m", "queryable", *arguments], **variables)

    def _run(self, command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **variables}
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=UP,
            check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> Iterator[Stack]:
    topic = make_topic(3)
    writer.table(topic, {KEY: 1})
    folder = tmp_path_factory.mktemp("authentication")
    made = Stack(folder, broker.bootstrap_servers, views_toml(counts={"topic": topic}))
    try:
        up = made.local("up", QUERYABLE_TOKEN=made.token)
        assert up.returncode == 0, up.stdout + up.stderr
        yield made
    finally:
        down = made.local("down")
    assert down.returncode == 0, down.stdout + down.stderr
    assert all(map(is_free, (made.proxy_port, *made.backend_ports)))


@pytest.mark.parametrize(
    "path", ["/views/counts/keys/a", "/views", "/processors", "/proxy/health", "/admin/history"]
)
def test_every_request_needs_a_token(stack: Stack, path: str) -> None:
    assert http.get(stack.url + path).status == 401
    headers = {"Authorization": f"Bearer {stack.token}"}
    assert http.get(stack.url + path, headers=headers).status == 200


def test_the_health_of_all_is_open(stack: Stack) -> None:
    for path in ("/health/live", "/health/ready", "/health/proxy"):
        assert http.get(stack.url + path).status == 200, path


def test_the_console_reads_with_a_token(stack: Stack) -> None:
    with_variable = {"QUERYABLE_TOKEN": stack.token}
    found = stack.console("get", "counts", KEY, "--json", **with_variable)
    assert (found.returncode, json.loads(found.stdout)["value"]) == (0, 1)
    found = stack.console("get", "counts", KEY, "--json", "--token-file", str(stack.token_file))
    assert (found.returncode, json.loads(found.stdout)["value"]) == (0, 1)
    for command in (["views"], ["describe", "counts"], ["count", "counts"], ["topology"]):
        done = stack.console(*command, **with_variable)
        assert done.returncode == 0, (command, done.stderr)


def test_the_console_without_a_token_says_what_to_do(stack: Stack) -> None:
    refused = stack.console("get", "counts", KEY)
    assert refused.returncode == 2
    assert "QUERYABLE_TOKEN" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_no_output_and_no_file_has_the_token(stack: Stack) -> None:
    secret = stack.token.rsplit(".", 1)[1]  # its signature
    logs = [path for path in (stack.folder / "run").rglob("*") if path.suffix in (".log", ".pid")]
    assert logs
    for path in logs:
        assert secret not in path.read_text(errors="replace"), path
