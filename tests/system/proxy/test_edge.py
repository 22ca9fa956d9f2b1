"""Limits, rejected requests, settings, logs and users."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.ports import free_ports
from local.settings import REPOSITORY
from local.stack.nginx import lay_out
from local.waiting import wait_until
from model.limits import MAX_BATCH_BYTES
from tests.support.client import Client, Response, raw
from tests.support.nginx import Nginx
from tests.system.proxy.backends import Cluster

NOBODY = 65534  # uid


def is_problem(response: Response, status: int, code: str) -> bool:
    problem = response.json()
    return (
        (response.status, problem["status"], problem["code"]) == (status, status, code)
        and response.headers["Content-Type"] == "application/problem+json"
        and {"type", "title", "detail"} <= set(problem)
    )


def test_a_uri_has_at_most_32_kib(cluster: Cluster, nginx: Nginx) -> None:
    with nginx.client() as client:
        assert client.get("/words/" + "k" * 30_000).status == 200
    with nginx.client() as client:
        assert is_problem(client.get("/words/" + "k" * 65_536), 414, "uri-too-long")


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (b"GET /words/a%00b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
        (b"GET /words/a%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
        (b"GET /words/../../a HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
        (b"GET /words/a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
        (b"GET /words/a?x#b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
        (b"GET /words/a HTTP/1.1\r\n\r\n", 400, "bad-request"),
        (b"NONSENSE\r\n\r\n", 400, "bad-request"),
        (b"TRACE /words/a HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method-not-allowed"),
        (
            b"GET /words/a HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 40_000 + b"\r\n\r\n",
            431,
            "headers-too-large",
        ),
        (
            b"POST /words/a HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n",
            413,
            "body-too-large",
        ),
        (
            b"POST /words/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n",
            501,
            "not-implemented",
        ),
        (b"GET /.queryable-proxy/problem HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request"),
    ],
)
def test_requests_that_nginx_refuses_get_a_problem(
    cluster: Cluster, nginx: Nginx, request_bytes: bytes, status: int, code: str
) -> None:
    assert is_problem(raw(nginx.port, request_bytes), status, code)
    assert all(backend.requests == [] for backend in cluster.backends)


@pytest.mark.parametrize(
    "path",
    [
        "/internal/scan",
        "/internal/batch",
        "/internal/",
        "/%69nternal/scan",
        "/internal%2Fscan",
        "/./internal/scan",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_clients_may_not_send_internal_requests(
    cluster: Cluster, nginx: Nginx, method: str, path: str
) -> None:
    with nginx.client() as client:
        assert is_problem(client.request(method, path, b"{}"), 404, "no-such-resource")
    assert all(backend.requests == [] for backend in cluster.backends)


@pytest.mark.parametrize(
    "path",
    [
        "/words/..%2Finternal%2Fx",
        "/views/../internal/scan",
        "/views/words/keys/%2e%2E%2f..%2f..%2Finternal/",
        "/views/words/keys/..%2F..%2F..%2Fmetrics?encoding=text",
        "/views/words/keys/a%2F..%2F..%2F..%2F..%2Fmetrics%2Ftargets",
    ],
)
def test_a_key_that_nginx_would_take_for_its_own_path_is_refused(
    cluster: Cluster, nginx: Nginx, path: str
) -> None:
    """404 would say that the key does not exist."""
    with nginx.client() as client:
        answer = client.get(path)
    assert is_problem(answer, 400, "bad-request")
    assert "?encoding=base64url" in answer.json()["detail"]
    assert all(backend.requests == [] for backend in cluster.backends)


def test_a_batch_may_be_large(cluster: Cluster, nginx: Nginx) -> None:
    body = b'{"keys":["%b"]}' % (b"x" * (MAX_BATCH_BYTES - 13))
    assert len(body) == MAX_BATCH_BYTES
    with nginx.client() as client:
        assert client.request("POST", "/views/words/batch", body).status == 200
    (request,) = [r for backend in cluster.backends for r in backend.requests]
    assert request.body == body
    for path, size in [
        ("/views/words/batch", MAX_BATCH_BYTES + 1),
        ("/views/words/keys", 2_000_000),
        ("/views/a/b/batch", 2_000_000),
    ]:
        large = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n"
        assert is_problem(raw(nginx.port, large.encode()), 413, "body-too-large")
    assert "[warn]" not in nginx.error_log(), "no body is written to a file"


def test_an_http_1_0_client_without_a_host_is_served(cluster: Cluster, nginx: Nginx) -> None:
    assert raw(nginx.port, b"GET /words/a HTTP/1.0\r\n\r\n").status == 200
    (request,) = [r for backend in cluster.backends for r in backend.requests]
    assert request.headers["Host"] == "backends"


def test_health_lists_the_backends(cluster: Cluster, nginx: Nginx) -> None:
    report = nginx.health()
    assert (report["status"], report["epoch"]) == ("ok", cluster.epoch)
    assert 0 <= report["age_s"] < 2
    assert report["backends"] == [
        {
            "id": backend.name,
            "address": f"127.0.0.1:{backend.port}",
            "state": "running",
            "usable": True,
            "reads": None,
            "left_out": None,
        }
        for backend in cluster.backends
    ]
    assert report["retries"] == {"tokens": 100, "denied": 0}


def test_the_access_log_names_the_backend_that_answered(cluster: Cluster, nginx: Nginx) -> None:
    owner = cluster.owner("words", 4)
    with nginx.client() as client:
        client.get("/words/a?x=%22")
        client.get("/views/words")
    keyed, unkeyed = sorted(nginx.access_log(2), key=lambda entry: entry["view"], reverse=True)
    assert set(keyed) == {
        "time", "request_id", "client", "method", "uri", "status", "bytes", "request_time", "view",
        "partition", "owner", "attempts", "batch", "upstream_addr", "upstream_status",
        "upstream_connect_time", "upstream_response_time", "served_by", "trace_id",
    }  # fmt: skip
    expected = {
        "client": "127.0.0.1",
        "method": "GET",
        "uri": "/words/a?x=%22",
        "status": 200,
        "view": "words",
        "partition": 4,
        "owner": owner.name,
        "attempts": 1,
        "upstream_addr": f"127.0.0.1:{owner.port}",
        "upstream_status": "200",
        "served_by": f"{owner.name}; active",
    }
    assert {name: keyed[name] for name in expected} == expected
    assert keyed["bytes"] > 0
    assert 0 <= float(keyed["upstream_response_time"]) < 10
    assert 0 <= keyed["request_time"] < 10
    assert len({entry["request_id"] for entry in (keyed, unkeyed)} - {""}) == 2
    nothing = {"view": "", "partition": None, "owner": "", "attempts": 1, "batch": None}
    assert {name: unkeyed[name] for name in nothing} == nothing


def test_the_error_log_stays_free_of_errors(cluster: Cluster, nginx: Nginx) -> None:
    with nginx.client() as client:
        for target in ("/words/a", "/views", "/proxy/health", "/longs/x"):
            assert client.get(target).status == 200
    nginx.reload()
    for level in ("[warn]", "[error]", "[crit]", "[alert]", "[emerg]"):
        assert level not in nginx.error_log()


def start(command: list[str], user: int | None = None, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env={**os.environ, **environment},
        user=user,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("QUERYABLE_BACKENDS", "127.0.0.1", "QUERYABLE_BACKENDS: '127.0.0.1' is not host:port"),
        (
            "QUERYABLE_PROXY_TLS_CERT_FILE",
            "/proxy.pem",
            "set both QUERYABLE_PROXY_TLS_CERT_FILE and QUERYABLE_PROXY_TLS_KEY_FILE, or neither",
        ),
        ("QUERYABLE_BACKENDS", ",", "QUERYABLE_BACKENDS: it is empty"),
        ("QUERYABLE_PROXY_REFRESH", "often", "QUERYABLE_PROXY_REFRESH: 'often' is not a number"),
    ],
)
def test_an_invalid_setting_is_an_error_at_start(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    command = lay_out(tmp_path / "prefix", *free_ports(1))
    with start(command, **{name: value}) as process:
        output, _ = process.communicate(timeout=20)
    assert process.returncode != 0
    assert message in output


def test_a_port_in_use_is_named(nginx: Nginx, tmp_path: Path) -> None:
    with start(lay_out(tmp_path / "second", nginx.port)) as process:
        output, _ = process.communicate(timeout=20)
    assert process.returncode != 0
    assert f"bind() to 127.0.0.1:{nginx.port} failed" in output


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user can read, with a copy of nginx.conf and the Lua modules."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(REPOSITORY / "nginx.conf", folder)
        shutil.copytree(REPOSITORY / "proxy", folder / "proxy")
        folder.chmod(0o755)
        yield folder


def test_a_slow_body_that_is_refused_does_not_keep_its_connection(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The client gets the answer, and may go on sending for a while."""
    changes = {"lingering_time 10s;": "lingering_time 1s;"}
    with (
        Nginx(tmp_path, cluster.addresses(), changes=changes) as nginx,
        socket.create_connection(("127.0.0.1", nginx.port), timeout=5) as client,
    ):
        length = MAX_BATCH_BYTES + (8 << 20)
        head = f"POST /words/a HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
        client.sendall(head.encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")

        def is_closed() -> bool:
            try:
                client.sendall(b"x")
            except OSError:
                return True
            return False

        # nginx would go on for 30 s by default
        wait_until(is_closed, 10, "nginx to close the connection", 0.1)


def test_nginx_runs_without_root(cluster: Cluster, public_folder: Path) -> None:
    prefix = public_folder / "prefix"
    (port,) = free_ports(1)
    command = lay_out(prefix, port, files=public_folder)
    # without root, all other tests cover this as well
    user = NOBODY if os.geteuid() == 0 else None
    if user is not None:
        for path in (prefix, prefix / "logs"):
            os.chown(path, user, -1)

    def answers() -> bool:
        assert process.poll() is None
        try:
            with Client(port) as client:
                return client.get("/words/a").status == 200
        except ConnectionRefusedError:
            return False

    with start(command, user, QUERYABLE_BACKENDS=cluster.addresses()) as process:
        try:
            wait_until(answers, 10, "an answer")
            with Client(port) as client:
                assert client.request("POST", "/words/a", body=b"x" * 900_000).status == 200
        finally:
            process.terminate()
            process.communicate(timeout=20)
