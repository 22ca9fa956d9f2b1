"""The admin page while no backend answers."""

from __future__ import annotations

import pytest

from local.ports import free_ports
from local.waiting import wait_until
from tests.support.client import Response
from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Answer, Cluster
from tests.system.proxy.conftest import StartNginx

POLICY = "default-src 'none'; script-src 'sha256-x'"
HTML = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": POLICY}


def get(nginx: Nginx, target: str) -> Response:
    with nginx.client() as client:
        return client.get(target)


def with_page(cluster: Cluster, page: Answer) -> None:
    for backend in cluster.backends:
        backend.page = page


def kept(nginx: Nginx) -> bytes:
    """The page that nginx sends by itself."""
    answer = get(nginx, "/admin")
    assert answer.status == 503
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return answer.body


@pytest.mark.parametrize("status", [200, 401])
def test_nginx_keeps_the_page_of_a_backend(
    cluster: Cluster, start_nginx: StartNginx, status: int
) -> None:
    """401: with authentication, the page asks for a token."""
    with_page(cluster, Answer(status, b"<h1>the page</h1>", HTML))
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    for backend in cluster.backends:
        backend.behave = lambda request: None  # closes the connection
    wait_until(lambda: b"the page" in kept(nginx), 10, "the page to be kept")
    answer = get(nginx, "/admin?view=words&key=a")
    assert (answer.status, answer.body) == (503, b"<h1>the page</h1>")
    assert answer.headers["Content-Security-Policy"] == POLICY
    nginx.reload()
    assert kept(nginx) == b"<h1>the page</h1>"
    # nothing else has it
    for target in ("/admin/topology.json", "/admin/", "/administrators", "/views"):
        assert get(nginx, target).headers["Content-Type"] == "application/problem+json"
    with nginx.client() as client:
        refused = client.request("POST", "/admin")
    assert refused.headers["Content-Type"] == "application/problem+json"


def test_the_page_of_the_next_epoch_replaces_it(cluster: Cluster, nginx: Nginx) -> None:
    for epoch, text in (("1000-2", b"first"), ("1000-3", b"second")):
        with_page(cluster, Answer(200, text, HTML))
        cluster.epoch = epoch
        nginx.wait_for_map(epoch)
        for backend in cluster.backends:
            backend.behave = lambda request: None
        wait_until(lambda t=text: kept(nginx) == t, 10, f"the page of {epoch}")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(Answer(500, b"x", HTML), id="error"),
        pytest.param(Answer(200, b"x", {"Content-Type": "text/html"}), id="no policy"),
        pytest.param(Answer(200, b"{}", {**HTML, "Content-Type": "application/json"}), id="JSON"),
        pytest.param(Answer(200, b"x" * (2 << 20) + b"x", HTML), id="too long"),
        pytest.param(None, id="no answer"),
    ],
)
def test_another_answer_is_not_kept(
    cluster: Cluster, start_nginx: StartNginx, page: Answer | None
) -> None:
    for backend in cluster.backends:
        backend.page = page
    nginx = start_nginx(cluster.addresses())
    nginx.wait_for_map(EPOCH)
    for backend in cluster.backends:
        backend.behave = lambda request: None
    assert b"No backend has answered since nginx started" in kept(nginx)


def test_without_a_page_nginx_has_one_that_loads_itself_again(start_nginx: StartNginx) -> None:
    (port,) = free_ports(1)
    nginx = start_nginx(f"127.0.0.1:{port}")
    text = kept(nginx)
    assert b'<meta http-equiv="refresh" content="2">' in text
    answer = get(nginx, "/admin")
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert get(nginx, "/views").headers["Content-Type"] == "application/problem+json"
