"""What nginx does by itself about browsers, clients above their limits, and views with a quota."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.client import Response, raw
from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Answer, Backend, Cluster, Request, always
from tests.system.proxy.conftest import KEY, StartNginx

NEXT_EPOCH = "2000-1"


def get(nginx: Nginx, path: str, *headers: str, host: str = "127.0.0.1") -> Response:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]
    return raw(nginx.port, "\r\n".join(lines).encode())


def publish(cluster: Cluster, nginx: Nginx, **more: object) -> None:
    """The workers of nginx have learned this from the backends."""
    cluster.more, cluster.epoch = more, NEXT_EPOCH
    nginx.wait_for_map(NEXT_EPOCH)


def test_pages_of_nginx_itself_can_be_restricted(cluster: Cluster, tmp_path: Path) -> None:
    """As docs/security/authentication.md says."""
    text = (REPOSITORY / "docs" / "security" / "authentication.md").read_text()
    [rules] = re.findall(r"^### nginx's own pages$.*?```nginx\n(.*?)```", text, re.S | re.M)
    assert "allow 10.0.0.0/8;" in rules
    rules = rules.replace("10.0.0.0/8", "127.0.0.1")
    files = {"listen.conf": f"listen 127.0.0.1:{{port}};\n{rules}"}

    def status(path: str, address: str) -> int:
        place = ("127.0.0.1", nginx.port)
        with socket.create_connection(place, 10, (address, 0)) as connection:
            request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            return int(connection.recv(65_536).split()[1])

    with Nginx(tmp_path / "prefix", cluster.addresses(), files=files) as nginx:
        nginx.wait_for_map(EPOCH)
        for path in ("/proxy/health", "/proxy/metrics", "/proxy/health?x", "/%70roxy/health"):
            assert status(path, "127.0.0.66") == 403, path
        for path in ("/proxy/health", "/proxy/metrics"):
            assert status(path, "127.0.0.1") == 200
        assert status("/words/a", "127.0.0.66") == 200


def test_no_answer_may_be_taken_for_another_type(cluster: Cluster, nginx: Nginx) -> None:
    cluster.backends[0].behave = always(Answer(304, b""))
    own = Answer(headers={"X-Content-Type-Options": "nosniff"})
    cluster.backends[1].behave = cluster.backends[2].behave = always(own)
    requests = [
        *(f"GET /words/{key} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for key in "abcdefgh"),
        b"GET /words/a?stale=allow HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /proxy/health HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /proxy/metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /internal/scan HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /words/a%zz HTTP/1.1\r\nHost: a\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"GET /words/" + b"k" * 65_536 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /words/a HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n",
    ]
    answers = [raw(nginx.port, request) for request in requests]
    assert {304, 200, 404, 400, 414, 413} <= {answer.status for answer in answers}
    for answer in answers:
        assert answer.headers.get_all("X-Content-Type-Options") == ["nosniff"], answer


def test_a_read_with_a_foreign_host_reaches_a_backend_with_that_host(
    cluster: Cluster, nginx: Nginx
) -> None:
    with ThreadPoolExecutor(32) as pool:
        hosts = ["evil.example:8080"] * 200
        assert {a.status for a in pool.map(lambda h: get(nginx, KEY, host=h), hosts)} == {200}
    requests = [request for backend in cluster.backends for request in backend.requests]
    assert len(requests) == 200
    assert all(request.headers["Host"] == "evil.example:8080" for request in requests)
    assert all(backend.batches == [] for backend in cluster.backends)


@pytest.mark.parametrize("path", ["/proxy/health", "/proxy/metrics", "/metrics/targets"])
def test_own_pages_are_not_for_pages_of_other_sites(
    cluster: Cluster, nginx: Nginx, path: str
) -> None:
    assert get(nginx, path, host="evil.example").code == "host-not-allowed"
    assert get(nginx, path, host="q.example.com").code == "host-not-allowed"
    assert get(nginx, path, "Origin: https://evil.example").code == "cross-site"
    assert get(nginx, path, "Sec-Fetch-Site: cross-site").code == "cross-site"
    assert get(nginx, path, "Sec-Fetch-Site: same-origin").status == 200
    publish(cluster, nginx, allowed_hosts=["q.example.com"])
    assert get(nginx, path, host="q.example.com:8080").status == 200
    assert get(nginx, path, host="evil.example").code == "host-not-allowed"


def test_clients_above_their_limits_get_429(
    cluster: Cluster, start_nginx: StartNginx, tmp_path: Path
) -> None:
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    limits = nginx.prefix / "limits.conf"
    text = limits.read_text()
    assert '127.0.0.0/8 "";' in text
    limits.unlink()  # a link to the repository's
    limits.write_text(
        text.replace('127.0.0.0/8 "";', "127.0.0.0/8 yes;")
        .replace("rate=2000r/s", "rate=1r/s")
        .replace("requests_by_client burst=2000", "requests_by_client burst=9")
        .replace("requests_by_token burst=2000", "requests_by_token burst=2")
    )
    nginx.reload()
    token = "Authorization: Bearer e30.e30.{}"
    answers = [get(nginx, KEY, token.format("a" * 43)) for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].code == "too-many-requests"
    assert answers[-1].headers["Retry-After"] == "1"
    assert answers[-1].headers["X-Content-Type-Options"] == "nosniff"
    assert get(nginx, KEY, token.format("b" * 43)).status == 200, "another token"
    # tokens that a client has made up share the limit of its address
    answers = [get(nginx, KEY, token.format(str(n) * 43)) for n in range(9)]
    assert [answer.status for answer in answers][-3:] == [429] * 3


def test_a_client_may_send_fewer_queries_than_reads_of_keys(
    cluster: Cluster, start_nginx: StartNginx
) -> None:
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    limits = nginx.prefix / "limits.conf"
    text = limits.read_text()
    limits.unlink()  # a link to the repository's
    limits.write_text(
        text.replace('127.0.0.0/8 "";', "127.0.0.0/8 yes;")
        .replace("rate=200r/s", "rate=1r/m")
        .replace("burst=100", "burst=18")
    )
    nginx.reload()
    of_keys = ["/words/a", "/words/a?stale=allow", "/words/a/windows", "/views/words/keys/a"]
    assert {get(nginx, path).status for path in of_keys * 5} <= {200, 404}
    queries = [
        *("/views/words/keys", "/views/words/keys?limit=1", "/views/words/count", "/views/words"),
        *("/api/v1/kv/words/count", "/processors", "/openapi.json", "/views//keys/a", "/"),
        *("/proxy/health", "/metrics/targets", "/admin/history", "/admin/views/words/replicas"),
        *("/health/ready", "/topics/words/records", "/processors/x", "/instance/x"),
        *("/internal/x", "/openapi.json/x"),
    ]
    assert 429 not in {get(nginx, path).status for path in queries}
    assert [get(nginx, path).status for path in queries] == [429] * len(queries)
    post = b"POST /views/words/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    assert raw(nginx.port, post).status == 429
    assert 429 not in {get(nginx, path).status for path in of_keys}


def test_an_ipv6_network_has_the_limits_of_one_client(
    cluster: Cluster, start_nginx: StartNginx
) -> None:
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    limits = nginx.prefix / "limits.conf"
    text = limits.read_text()
    limits.unlink()  # a link to the repository's
    limits.write_text(
        text.replace("rate=2000r/s", "rate=1r/m").replace("burst=2000", "burst=2")
        + "set_real_ip_from 127.0.0.1;\nreal_ip_header X-Real-IP;\n"
    )
    nginx.reload()

    def statuses(*addresses: str) -> list[int]:
        return [get(nginx, KEY, f"X-Real-IP: {address}").status for address in addresses]

    assert statuses(*(f"2001:db8:a0a:a::{n}" for n in range(1, 6))) == [200] * 3 + [429] * 2
    for another in ("2001:db8:a0a:b::1", "192.0.2.1", "::ffff:192.0.2.2", "::ffff:192.0.2.3"):
        assert statuses(*[another] * 4) == [200] * 3 + [429]


def quota_statuses(nginx: Nginx, paths: list[str]) -> list[int]:
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda path: get(nginx, path).status, paths))


def test_a_view_with_a_quota(cluster: Cluster, nginx: Nginx) -> None:
    publish(cluster, nginx, quotas={"words": "60/m", "crc": "1/m", "fnv": "nonsense"})
    began = time.monotonic()
    paths = ["/words/a", "/words/b?stale=allow", "/views/words/count", "/api/v1/kv/words/count"]
    statuses = quota_statuses(nginx, [paths[n % 4] for n in range(100)])
    seconds = time.monotonic() - began
    answered = statuses.count(200)
    # 60 at once and one a second, over all workers
    assert 60 <= answered <= 61 + seconds
    assert statuses.count(429) == 100 - answered
    refused = get(nginx, "/words/c")
    assert refused.code == "quota-exceeded"
    assert 1 <= int(refused.headers["Retry-After"]) <= 2
    # of 60 s, and of the view alone
    assert [get(nginx, "/views/crc/keys/YQ?encoding=base64url").status for _ in range(2)] == [
        200,
        429,
    ]
    assert {get(nginx, "/fnv/a").status for _ in range(5)} == {200}
    metrics = get(nginx, "/proxy/metrics").body.decode()
    assert 'queryable_proxy_over_quota_total{view="crc"} 1\n' in metrics
    counted = [
        request.headers.get("Queryable-Counted")
        for backend in cluster.backends
        for request in backend.requests
        if "stale=" in request.path or "count" in request.path
    ]
    assert counted
    assert set(counted) == {"1"}


@pytest.mark.parametrize("batches", ["0", "1"])
@pytest.mark.parametrize("status", [401, 403, 405])
def test_refused_requests_do_not_use_up_a_quota(
    cluster: Cluster, start_nginx: StartNginx, batches: str, status: int
) -> None:
    nginx = start_nginx(
        cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1", QUERYABLE_PROXY_BATCHES=batches
    )
    nginx.wait_for_map(EPOCH)
    publish(cluster, nginx, quotas={"words": "5/m"})

    def refusing(backend: Backend) -> Callable[[Request], Answer]:
        def behave(request: Request) -> Answer:
            is_good = request.headers.get("Authorization") == "Bearer good"
            return backend.answer(request) if is_good else Answer(status)

        return behave

    for backend in cluster.backends:
        backend.behave = refusing(backend)
        backend.behave_batch = always(Answer(404))  # all reads alone
    paths = [KEY, f"{KEY}?stale=allow", "/views/words/count"]
    assert [get(nginx, path).status for path in paths * 5] == [status] * 15
    good = [get(nginx, path, "Authorization: Bearer good").status for path in paths * 2]
    assert good == [200] * 5 + [429]


def test_clients_cannot_say_that_they_are_counted(cluster: Cluster, nginx: Nginx) -> None:
    assert get(nginx, f"{KEY}?a", "Queryable-Counted: 1").status == 200
    (request,) = [request for backend in cluster.backends for request in backend.requests]
    assert "Queryable-Counted" not in request.headers


def test_a_retry_at_another_backend_is_not_counted_again(cluster: Cluster, nginx: Nginx) -> None:
    publish(cluster, nginx, quotas={"words": "3/m"})
    cluster.with_standbys()
    failing, seen = cluster.owner("words", 4), list[Request]()

    def refuse(request: Request) -> Answer:
        seen.append(request)
        return Answer(503, json.dumps({"code": "catching-up"}).encode())

    failing.behave = refuse
    cluster.epoch = "3000-1"
    nginx.wait_for_map("3000-1")
    wait_until(lambda: get(nginx, "/proxy/health").status == 200, 5, "nginx")
    statuses = [get(nginx, KEY).status for _ in range(4)]
    assert seen
    assert statuses == [200, 200, 200, 429]
