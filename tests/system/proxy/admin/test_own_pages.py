"""With authentication, nginx's own pages need a token, which an instance checks."""

from __future__ import annotations

import threading
import time

import pytest

from local.ports import free_ports
from local.waiting import wait_until
from tests.support.client import Response
from tests.support.nginx import Nginx
from tests.system.proxy.backends import CATCHING_UP, EPOCH, Answer, Cluster, Request, always
from tests.system.proxy.conftest import StartNginx

ANY_SCOPE = ("/proxy/health",)
METRICS = ("/proxy/metrics", "/metrics", "/metrics/targets", "/metrics%2Ftargets", "/%6detrics")
PAGES = (*ANY_SCOPE, *METRICS)
UNAUTHENTICATED = Answer(
    401,
    b'{"code":"unauthenticated"}',
    {"WWW-Authenticate": "Bearer", "Content-Type": "application/problem+json"},
)
FORBIDDEN = Answer(403, b'{"code":"forbidden"}', {"WWW-Authenticate": 'Bearer error="x"'})
NOT_FOUND = Answer(404, b'{"code":"no-such-resource"}')


def decide(request: Request) -> Answer:
    """As an instance: it has no /proxy/health, which any scope may ask for."""
    token = request.headers.get("Authorization") or request.headers.get("X-Token")
    if token is None:
        return UNAUTHENTICATED
    if request.path == "/metrics/targets":
        return Answer() if "metrics" in token else FORBIDDEN
    return NOT_FOUND


@pytest.fixture
def nginx(cluster: Cluster, start_nginx: StartNginx) -> Nginx:
    cluster.more = {"token_headers": ["Authorization", "X-Token"]}
    for backend in cluster.backends:
        backend.behave = decide
    nginx = start_nginx(cluster.addresses(), workers=1, QUERYABLE_PROXY_REFRESH="0.1")
    wait_until(lambda: get(nginx, "/health/proxy").status == 200, 10, "the topology")
    return nginx


def get(nginx: Nginx, path: str, **headers: str) -> Response:
    with nginx.client() as client:
        return client.request("GET", path, headers=headers)


def asked(cluster: Cluster) -> list[tuple[str, str | None]]:
    """The paths and tokens that instances were asked for."""
    return [
        (request.path, request.headers.get("Authorization"))
        for backend in cluster.backends
        for request in backend.requests
    ]


@pytest.mark.parametrize("path", PAGES)
def test_without_a_token_the_refusal_is_that_of_an_instance(
    cluster: Cluster, nginx: Nginx, path: str
) -> None:
    answer = get(nginx, path)
    assert (answer.status, answer.json()) == (401, {"code": "unauthenticated"})
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    [request] = [request for backend in cluster.backends for request in backend.requests]
    assert request.headers["X-Forwarded-For"] == "127.0.0.1"


def test_the_scope_is_that_of_the_page(cluster: Cluster, nginx: Nginx) -> None:
    reader, monitoring = "Bearer read:orders", "Bearer metrics"
    for path in ANY_SCOPE:
        assert get(nginx, path, Authorization=reader).json()["epoch"] == EPOCH
    for path in METRICS:
        assert get(nginx, path, Authorization=reader).status == 403
    assert get(nginx, "/metrics", Authorization=monitoring).status == 421
    assert (
        "queryable_proxy_" in get(nginx, "/proxy/metrics", Authorization=monitoring).body.decode()
    )
    targets = get(nginx, "/metrics/targets", Authorization=monitoring).json()
    assert len(targets) == len(cluster.backends) + 1
    assert set(asked(cluster)) == {
        ("/proxy/health", reader),
        ("/metrics/targets", reader),
        ("/metrics/targets", monitoring),
    }


def test_the_header_of_an_oidc_proxy(nginx: Nginx) -> None:
    assert get(nginx, "/proxy/metrics", **{"X-Token": "metrics"}).status == 200
    # none of two tokens is meant
    two = {"X-Token": "metrics", "x-token": "metrics"}
    assert get(nginx, "/proxy/health", **two).status == 401


def test_whether_nginx_has_a_topology_is_open(cluster: Cluster, nginx: Nginx) -> None:
    answer = get(nginx, "/health/proxy")
    assert (answer.status, answer.json()) == (200, {"status": "ok"})
    assert asked(cluster) == []


@pytest.mark.parametrize("status", [400, 404, 421, 429, 431])
def test_only_the_page_itself_is_a_permission(cluster: Cluster, nginx: Nginx, status: int) -> None:
    """Regression: a token that was too large for an instance opened the pages. Instances do not
    have /proxy/health, so 404 is what they answer for it."""
    for backend in cluster.backends:
        backend.behave = always(Answer(status))
    for path in METRICS if status == 404 else PAGES:
        answer = get(nginx, path, Authorization="Bearer a")
        assert answer.status == status
        assert b"b1" not in answer.body


@pytest.mark.parametrize("status", [200, 204, 302])
def test_an_answer_of_another_program_is_no_permission(
    cluster: Cluster, nginx: Nginx, status: int
) -> None:
    """Without the epoch, which an instance always sends."""
    answer_ = Answer(status, b"" if status == 204 else b"{}", {"Topology-Epoch": None})
    for backend in cluster.backends:
        backend.behave = always(answer_)
    for path in PAGES:
        answer = get(nginx, path, Authorization="Bearer a")
        assert (answer.status, answer.code) == (503, "no-backend")


def test_a_404_of_another_program_opens_no_page(cluster: Cluster, nginx: Nginx) -> None:
    for backend in cluster.backends:
        backend.behave = always(Answer(404, headers={"Topology-Epoch": None}))
    for path in PAGES:
        assert get(nginx, path, Authorization="Bearer a").status == 404


def test_why_instances_cannot_decide(cluster: Cluster, nginx: Nginx) -> None:
    unavailable = Answer(503, b'{"code":"keys-unavailable"}', {"Retry-After": "7"})
    for backend in cluster.backends:
        backend.behave = always(unavailable)
    answer = get(nginx, "/proxy/health", Authorization="Bearer a")
    assert (answer.status, answer.json()["code"]) == (503, "keys-unavailable")
    assert answer.headers["Retry-After"] == "7"


def test_instances_that_hang_are_not_waited_for_long(cluster: Cluster, nginx: Nginx) -> None:
    token = {"Authorization": "Bearer a"}
    assert get(nginx, "/proxy/health", **token).status == 200
    released = threading.Event()
    for backend in cluster.backends:
        backend.behave = lambda _: released.wait(30) and None
    try:
        began = time.monotonic()
        assert get(nginx, "/proxy/health", **token).status == 200
        # three attempts of 0.8 s; the admin page waits for 3 s
        assert time.monotonic() - began < 3
    finally:
        released.set()


def test_another_instance_decides_if_one_cannot(cluster: Cluster, nginx: Nginx) -> None:
    for backend in cluster.backends[:2]:
        backend.behave = always(CATCHING_UP)
    for _ in range(6):
        assert get(nginx, "/proxy/health").status == 401
        assert get(nginx, "/proxy/health", Authorization="Bearer a").status == 200


def test_while_no_instance_decides_tokens_from_before_are_accepted(
    cluster: Cluster, nginx: Nginx
) -> None:
    known, revoked = "Bearer known metrics", "Bearer revoked metrics"
    for token in (known, revoked):
        assert get(nginx, "/proxy/health", Authorization=token).status == 200

    def refuse_revoked(request: Request) -> Answer:
        is_revoked = request.headers.get("Authorization") == revoked
        return UNAUTHENTICATED if is_revoked else decide(request)

    for backend in cluster.backends:
        backend.behave = refuse_revoked
    assert get(nginx, "/proxy/health", Authorization=revoked).status == 401
    for backend in cluster.backends:
        backend.stop()
    assert get(nginx, "/proxy/health", Authorization=known).json()["epoch"] == EPOCH
    for path, headers in [
        ("/proxy/health", {}),
        ("/proxy/health", {"Authorization": "Bearer unknown"}),
        ("/proxy/health", {"Authorization": revoked}),
        ("/proxy/metrics", {"Authorization": known}),  # it was accepted for another scope
    ]:
        answer = get(nginx, path, **headers)
        assert (answer.status, answer.code) == (503, "no-backend"), (path, headers)
        assert answer.headers["Retry-After"] == "1"


def test_without_authentication_no_instance_is_asked_for_access(
    cluster: Cluster, start_nginx: StartNginx
) -> None:
    """Only for its list of targets."""
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    for path in PAGES:
        assert get(nginx, path).status in (200, 421)
    assert set(asked(cluster)) == {("/metrics/targets", None)}


def test_until_the_topology_is_known_only_this_machine_sees_the_pages(
    start_nginx: StartNginx,
) -> None:
    (port,) = free_ports(1)
    nginx = start_nginx(f"127.0.0.1:{port}", workers=1)
    (nginx.prefix / "conf.d").mkdir(exist_ok=True)
    # the address that a proxy on this machine reports
    (nginx.prefix / "conf.d" / "real_ip.conf").write_text(
        "set_real_ip_from 127.0.0.1; real_ip_header X-Real-Ip;\n"
    )
    nginx.reload()
    for path in PAGES:
        of_machine = get(nginx, path)
        assert of_machine.status in (200, 421, 503), path
        assert b"no topology yet" not in of_machine.body.lower(), path
        other = get(nginx, path, **{"X-Real-Ip": "192.0.2.1"})
        assert (other.status, other.code) == (503, "no-topology")
    for headers in ({}, {"X-Real-Ip": "192.0.2.1"}):
        status = get(nginx, "/health/proxy", **headers)
        assert (status.status, status.json()) == (503, {"status": "no-topology"})
        assert status.headers["Retry-After"] == "1"


def test_a_page_of_another_site_is_refused_first(cluster: Cluster, nginx: Nginx) -> None:
    for path in (*PAGES, "/health/proxy"):
        answer = get(nginx, path, **{"Sec-Fetch-Site": "cross-site"})
        assert (answer.status, answer.code) == (403, "cross-site")
    assert asked(cluster) == []
