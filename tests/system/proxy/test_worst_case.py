"""No request that nginx accepts costs a worker more than 5 ms."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.client import TIMEOUT
from tests.support.nginx import Nginx
from tests.support.security.hostile import headers, uris
from tests.system.proxy.backends import EPOCH, Cluster
from tests.system.proxy.conftest import StartNginx

BOUND_MS = 5.0
ROUNDS = 4


def send(nginx: Nginx, request: bytes) -> bytes:
    """The status line."""
    with socket.create_connection(("127.0.0.1", nginx.port), timeout=TIMEOUT) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return answer.partition(b"\r\n")[0]


def cpu_ms(worker: int) -> float:
    """CPU time of the process; waiting for a processor does not count."""
    return int(Path(f"/proc/{worker}/schedstat").read_text().split()[0]) / 1e6


def costs(nginx: Nginx, request: bytes) -> float:
    """CPU time of one request, ms: the minimum of several, as noise only adds to it."""
    [worker] = nginx.workers()
    taken = []
    for _ in range(ROUNDS):
        before = cpu_ms(worker)
        assert send(nginx, request).startswith(b"HTTP/1.1 ")
        taken.append(cpu_ms(worker) - before)
    return min(taken)


@pytest.fixture
def nginx(cluster: Cluster, start_nginx: StartNginx) -> Nginx:
    words = cluster.views["words"]
    cluster.views["uuids"] = {**words, "path": "/uuids", "key": "uuid"}
    cluster.views["texts"] = {**words, "path": "/texts", "key": "string"}
    cluster.assign()
    nginx = start_nginx(cluster.addresses(), 1, QUERYABLE_PROXY_REFRESH="60")
    nginx.wait_for_map(EPOCH)
    return nginx


def requests_with_uris() -> list[tuple[str, bytes]]:
    line = b"GET %b HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
    return [(name, line % uri) for name, uri in uris()]


def requests_with_headers() -> list[tuple[str, bytes]]:
    line = b"GET /words/a HTTP/1.1\r\nHost: t\r\nConnection: close\r\n%b\r\n"
    return [(name, line % lines) for name, lines in headers()]


@pytest.mark.parametrize("requests", [requests_with_uris, requests_with_headers])
def test_no_request_costs_a_worker_more_than_5_ms(
    nginx: Nginx, requests: Callable[[], list[tuple[str, bytes]]]
) -> None:
    found = {name: costs(nginx, request) for name, request in requests()}
    for name, cost in sorted(found.items(), key=lambda item: -item[1])[:5]:
        print(f"{cost:8.3f} ms  {name}")
    assert {name: cost for name, cost in found.items() if cost > BOUND_MS} == {}
