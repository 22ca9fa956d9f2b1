"""Clients behind proxies are several clients, and say nothing about themselves that is believed."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from local.ports import free_ports
from local.processes import end, spawn
from local.settings import REPOSITORY
from local.stack.nginx import find_nginx, lay_out
from local.waiting import wait_until
from tests.support.machines.machine import Network, why_not
from tests.support.nginx import Nginx
from tests.support.security.forwarded_cases import CASES, TRUSTED
from tests.system.proxy.backends import EPOCH, Cluster

COUNT = "/views/words/count"
BUSY, QUIET = "127.0.9.1", "127.0.9.2"
"""The addresses of two clients."""

PROXIES = """
daemon off; worker_processes 1; pid proxies.pid; error_log proxies.log;
events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp;
    scgi_temp_path temp;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    server {
        listen 127.0.0.1:OUTER;
        location / { proxy_bind 127.0.1.2; proxy_pass http://127.0.0.1:INNER; }
    }
    server {
        listen 127.0.0.1:INNER;
        location / { proxy_bind 127.0.1.1; proxy_pass http://127.0.0.1:LAST; }
    }
}
"""


def ask(port: int, path: str, client: str, forwarded_for: Sequence[str] = ()) -> tuple[int, bytes]:
    """Sends a GET from the address `client`. Returns the status and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, 10, source_address=(client, 0))
    try:
        connection.putrequest("GET", path)
        for value in forwarded_for:
            connection.putheader("X-Forwarded-For", value)
        # the claim of another client, which proxies other than nginx pass on
        connection.putheader("Queryable-Client", "198.51.100.7")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def start(folder: Path, backends: str, trusted: str, files: dict[str, str] | None = None) -> Nginx:
    environment = {"QUERYABLE_TRUSTED_PROXIES": trusted, "QUERYABLE_PROXY_REFRESH": "0.1"}
    return Nginx(folder, backends, environment, files=files)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an nginx that answers with the address of the client."""
    (port,) = free_ports(1)
    server = f"server {{ listen 127.0.0.1:{port}; location / {{ return 200 $remote_addr; }} }}"
    folder = tmp_path_factory.mktemp("echo") / "prefix"
    with start(folder, "127.0.0.1:1", TRUSTED, {"conf.d/echo.conf": server}):
        yield port


@pytest.mark.parametrize(("socket", "values", "client"), CASES)
def test_nginx_finds_the_same_client_as_an_instance(
    socket: str, values: list[str], client: str, echo: int
) -> None:
    assert ask(echo, "/", socket, values) == (200, client.encode())


@pytest.fixture
def limited(cluster: Cluster, tmp_path: Path) -> Iterator[Nginx]:
    """nginx that limits clients of loopback, too, to 5 queries at once."""
    limits = (REPOSITORY / "proxy" / "limits.conf").read_text()
    for old, new in (
        ('127.0.0.0/8 "";', "127.0.0.0/8 yes;"),
        ("rate=200r/s", "rate=1r/m"),
        ("burst=100", "burst=4"),
    ):
        assert old in limits
        limits = limits.replace(old, new)
    with start(tmp_path / "prefix", cluster.addresses(), "127.0.1.0/24") as nginx:
        nginx.stop()
        (nginx.prefix / "limits.conf").unlink()  # a link to the repository's
        (nginx.prefix / "limits.conf").write_text(limits)
        nginx.start()
        nginx.wait_for_map(EPOCH)
        yield nginx


@pytest.fixture
def outer(limited: Nginx, tmp_path: Path) -> Iterator[int]:
    """The port of a proxy, which asks another proxy, which asks nginx."""
    outer, inner = free_ports(2)
    text = PROXIES
    for name, port in (("OUTER", outer), ("INNER", inner), ("LAST", limited.port)):
        text = text.replace(name, str(port))
    folder = tmp_path / "proxies"
    folder.mkdir()
    (folder / "nginx.conf").write_text(text)
    command = [find_nginx(), "-e", f"{folder}/log", "-p", f"{folder}/", "-c", "nginx.conf"]
    process = spawn(command, folder / "output.log")

    def listens() -> bool:
        assert process.poll() is None, (folder / "output.log").read_text()
        try:
            return ask(outer, "/health/proxy", "127.0.9.3")[0] == 200
        except ConnectionRefusedError:
            return False

    wait_until(listens, 10, "the proxies")
    yield outer
    end(process, 10)


def test_a_client_behind_two_proxies_is_limited_alone(
    cluster: Cluster, limited: Nginx, outer: int
) -> None:
    """Regression: all clients behind a proxy had its limits, so one client caused 429 for all."""
    assert [ask(outer, COUNT, BUSY)[0] for _ in range(7)] == [200] * 5 + [429] * 2
    assert [ask(outer, COUNT, QUIET)[0] for _ in range(5)] == [200] * 5
    # another address, that of a proxy, or that of another client does not help it
    for lie in (["203.0.113.1"], ["127.0.1.9"], [QUIET, "127.0.1.2"], ["127.0.0.1", "unknown"]):
        assert ask(outer, COUNT, BUSY, lie)[0] == 429
    # without the proxies it cannot say that it is one
    assert ask(limited.port, COUNT, BUSY, ["203.0.113.1"])[0] == 429

    claims = [
        (r.headers["Queryable-Client"], r.headers["X-Forwarded-For"].split(", ")[-1])
        for backend in cluster.backends
        for r in backend.requests
        if r.path == COUNT
    ]
    assert sorted(claims) == [(BUSY, BUSY)] * 5 + [(QUIET, QUIET)] * 5
    assert {line["client"] for line in limited.access_log(17, COUNT)} == {BUSY, QUIET}

    audit = limited.prefix / "logs" / "audit.log"
    wait_until(lambda: audit.read_text().count("\n") >= 7, 10, "the audit log")
    refused = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["client"], line["proxy"]) for line in refused] == [(BUSY, "127.0.1.1")] * 6 + [
        (BUSY, "")
    ]


def test_a_proxy_on_another_machine_cannot_say_that_a_client_is_on_this_one(tmp_path: Path) -> None:
    """Without a topology, nginx shows its own pages to clients on its machine only."""
    if reason := why_not():
        pytest.skip(reason)
    with Network("10.0.0.1") as network:
        machine = network.connect("m1", "10.0.0.2")
        command = lay_out(tmp_path, 8080)
        (tmp_path / "listen.conf").write_text("listen 10.0.0.2:8080; listen 127.0.0.1:8080;")
        command = ["ip", "netns", "exec", machine, *command]
        environment = {**os.environ, "QUERYABLE_TRUSTED_PROXIES": "10.0.0.1"}
        process = spawn(command, tmp_path / "output.log", env=environment)

        def status(address: str, forwarded_for: str) -> int:
            words = ["ip", "netns", "exec", machine] if address == "127.0.0.1" else []
            url = f"http://{address}:8080/proxy/metrics"
            curl = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H"]
            done = subprocess.run(
                [*words, *curl, f"X-Forwarded-For: {forwarded_for}", url],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            return int(done.stdout)

        try:
            wait_until(lambda: status("127.0.0.1", "203.0.113.7"), 10, "nginx")
            assert status("127.0.0.1", "203.0.113.7") == 200
            assert status("10.0.0.2", "203.0.113.7") == 503
            assert status("10.0.0.2", "127.0.0.1") == 503
            # such a client is limited: all requests are sent at once
            request = b"GET /health/proxy HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n"
            received = b""
            with socket.create_connection(("10.0.0.2", 8080), timeout=30) as connection:
                connection.sendall(request * 1000)
                while b"HTTP/1.1 429 " not in received and received.count(b"HTTP/1.1 ") < 1000:
                    received += connection.recv(1 << 16)
            assert b"HTTP/1.1 429 " in received
        finally:
            end(process, 10)


def test_a_wrong_setting_is_named_and_an_empty_one_removes_the_file(tmp_path: Path) -> None:
    def run(trusted: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", str(REPOSITORY / "proxy" / "start"), "true", "-p", f"{tmp_path}/"],
            env={"PATH": "/usr/bin:/bin:/usr/sbin", "QUERYABLE_TRUSTED_PROXIES": trusted},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr

    for wrong in ("proxy.example.com", "*", "10.0.0.1; x", "cafe", "unix:"):
        status, message = run(f"10.0.0.0/8,{wrong}")
        assert status == 1
        assert message.startswith("QUERYABLE_TRUSTED_PROXIES: '"), message
        assert not (tmp_path / "trusted_proxies.conf").exists()
    assert run("10.0.0.0/8, ::1") == (0, "")
    assert (
        "set_real_ip_from 10.0.0.0/8;\nset_real_ip_from ::1;"
        in (tmp_path / "trusted_proxies.conf").read_text()
    )
    assert run("") == (0, "")
    assert list(tmp_path.iterdir()) == []
