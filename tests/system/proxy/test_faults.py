"""A backend that fails delays a reader, but every read is answered; and no write is sent twice."""

from __future__ import annotations

import threading
import time

import pytest

from tests.support.client import Response
from tests.support.nginx import Nginx
from tests.system.proxy.backends import (
    CATCHING_UP,
    EPOCH,
    Answer,
    Cluster,
    Request,
    always,
    non_retryable,
)
from tests.system.proxy.conftest import KEY, PARTITION, Roles, StartNginx


def without_standbys(cluster: Cluster) -> None:
    for backend in cluster.backends:
        backend.standby = {}


def get(nginx: Nginx, target: str = KEY) -> Response:
    with nginx.client() as client:
        return client.get(target)


def post(nginx: Nginx, target: str = KEY) -> Response:
    with nginx.client() as client:
        return client.request("POST", target, body=b"{}")


@pytest.mark.parametrize("fault", ["refuses", "closes", "answers 503", "sends too many headers"])
def test_a_read_goes_to_the_standby_when_the_active(roles: Roles, nginx: Nginx, fault: str) -> None:
    active, standby, other = roles
    if fault == "refuses":
        active.stop()
    else:
        too_much = Answer(200, b"{}", {"X": "x" * 20_000})
        answers = {"closes": None, "answers 503": CATCHING_UP, "sends too many headers": too_much}
        active.behave = always(answers[fault])
        if fault == "sends too many headers":
            active.behave_batch = active.behave
    assert get(nginx).json() == {"by": standby.name}
    with nginx.client() as client:
        assert client.request("HEAD", KEY).status == 200
    assert other.requests == []
    entries = nginx.access_log(2, KEY)
    attempts = {entry["method"]: entry["attempts"] for entry in entries}
    # a read is sent to the active with others first; the same worker then knows that it fails
    assert attempts["GET"] == (2 if fault == "answers 503" else 1)
    assert attempts["HEAD"] in ({2} if fault == "answers 503" else {1, 2})
    assert {entry["owner"] for entry in entries} == {active.name}
    assert {entry["served_by"] for entry in entries} == {f"{standby.name}; active"}


def test_the_standby_answers_soon_if_the_active_hangs(roles: Roles, nginx: Nginx) -> None:
    active, standby, _ = roles
    released = threading.Event()

    def hang(request: Request) -> None:
        released.wait(30)

    active.behave = hang
    began = time.monotonic()
    assert get(nginx).json() == {"by": standby.name}
    took = time.monotonic() - began
    released.set()
    assert took < 4


def test_other_requests_have_more_time(roles: Roles, nginx: Nginx) -> None:
    active, _, _ = roles
    times_out_after = 2

    def slow(request: Request) -> Answer:
        # longer than the time-out of a point read
        threading.Event().wait(times_out_after + 0.3)
        return active.answer(request)

    active.behave = slow
    assert get(nginx, KEY + "/windows").json() == {"by": active.name}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_a_standby_another_backend_forwards(
    cluster: Cluster, roles: Roles, nginx: Nginx, method: str
) -> None:
    without_standbys(cluster)
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")
    roles[0].stop()
    # a POST as well: no backend has received it
    response = get(nginx) if method == "GET" else post(nginx)
    assert response.json()["by"] in {roles[1].name, roles[2].name}
    asked = [r for backend in roles for r in backend.requests]
    assert [(r.method, r.path) for r in asked] == [(method, KEY)]
    (entry,) = nginx.access_log(1, KEY)
    assert (entry["method"], entry["attempts"], entry["owner"]) == (method, 2, roles[0].name)


def test_one_backend_of_three_is_enough(cluster: Cluster, roles: Roles, nginx: Nginx) -> None:
    roles[0].stop()
    roles[1].stop()
    for _ in range(4):
        assert get(nginx).json() == {"by": roles[2].name}
        assert get(nginx, "/views").json() == {"by": roles[2].name}


def test_the_last_503_is_passed_on_unchanged(roles: Roles, nginx: Nginx) -> None:
    active, standby, other = roles
    active.behave = standby.behave = always(CATCHING_UP)
    response = get(nginx)
    assert (response.status, response.json()) == (503, {"code": "catching-up"})
    assert response.headers["Retry-After"] == "1"
    assert response.headers["Content-Type"] == "application/problem+json"
    # any other backend would forward the request to the same two
    assert [len(backend.single_requests) for backend in roles] == [1, 1, 0]
    assert other.requests == []


@pytest.mark.parametrize("target", [KEY, "/views/words/keys"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_non_retryable_503_is_not_retried(
    roles: Roles, nginx: Nginx, method: str, target: str
) -> None:
    for backend in roles:
        backend.behave = non_retryable
    with nginx.client() as client:
        # clients cannot set the header
        response = client.request(method, target, Queryable_Final_Status="200")
    assert response.status == 503
    assert response.body == (b'{"code":"repartitioned"}' if method == "GET" else b"")
    assert response.headers["Retry-After"] == "1"
    assert response.headers["Content-Type"] == "application/problem+json"
    assert sum(len(backend.single_requests) for backend in roles) == 1
    (entry,) = nginx.access_log(1, target)
    assert (entry["status"], entry["attempts"], entry["upstream_status"]) == (503, 1, "530")


@pytest.mark.parametrize("status", [400, 404, 500, 502, 504])
def test_other_answers_are_never_retried(roles: Roles, nginx: Nginx, status: int) -> None:
    roles[0].behave = always(Answer(status, b'{"code":"x"}'))
    response = get(nginx)
    assert (response.status, response.json()) == (status, {"code": "x"})
    # errors are not answered in batches
    assert [len(backend.single_requests) for backend in roles] == [int(status != 404), 0, 0]
    assert [backend.batches for backend in roles] == [[1], [], []]


RECORDS = "/topics/words/records"


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (KEY, "no-answer"),
        ("/views/words/batch", "no-backend"),
        ("/views/words/search?limit=1", "no-backend"),
        (RECORDS, "no-answer"),
    ],
)
def test_a_post_that_was_sent_is_never_sent_again(
    roles: Roles, nginx: Nginx, target: str, code: str
) -> None:
    """A client may send one again that only reads."""
    for backend in roles:
        backend.behave = always(None)
    response = post(nginx, target)
    assert (response.status, response.json()["code"]) == (503, code)
    assert response.headers["Retry-After"] == ("1" if code == "no-backend" else None)
    for backend in roles:
        backend.behave = always(CATCHING_UP)
    assert post(nginx, target).json() == {"code": "catching-up"}
    assert sum(len(backend.requests) for backend in roles) == 2


def test_a_post_that_another_backend_got_is_not_sent_again(
    cluster: Cluster, roles: Roles, nginx: Nginx
) -> None:
    """The owner has refused the connection."""
    without_standbys(cluster)
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")
    roles[0].stop()
    for backend in roles[1:]:
        backend.behave = always(None)
    response = post(nginx)
    assert (response.status, response.json()["code"]) == (503, "no-answer")
    assert response.headers["Retry-After"] is None
    assert sum(len(backend.requests) for backend in roles) == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_write_is_not_sent_again_if_a_kept_connection_closes(
    cluster: Cluster, start_nginx: StartNginx, method: str
) -> None:
    nginx = start_nginx(cluster.addresses(), 1, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    with nginx.client() as client:
        for _ in cluster.backends:
            assert client.request(method, RECORDS, body=b"{}").status == 200
        for backend in cluster.backends:
            backend.requests.clear()
            backend.behave = always(None)
        response = client.request(method, RECORDS, body=b"{}")
    assert (response.status, response.json()["code"]) == (503, "no-answer")
    assert sum(len(backend.requests) for backend in cluster.backends) == 1


def test_without_any_backend_requests_are_answered_with_503(cluster: Cluster, nginx: Nginx) -> None:
    cluster.stop()
    for target in (KEY, "/views", "/health/live"):
        response = get(nginx, target)
        problem = response.json()
        assert (response.status, problem["status"], problem["code"]) == (503, 503, "no-backend")
        assert response.headers["Retry-After"] == "1"
        assert response.headers["Content-Type"] == "application/problem+json"
    response = post(nginx)
    assert (response.status, response.json()["code"]) == (503, "no-backend")
    # the owner and, because it has no standby, both others; for requests without a key all three
    entries = [(e["method"], e["uri"], e["attempts"]) for e in nginx.access_log(4)]
    assert sorted(entries) == sorted(
        [("GET", KEY, 3), ("GET", "/views", 3), ("GET", "/health/live", 3), ("POST", KEY, 3)]
    )


def test_a_restarted_backend_is_tried_again(cluster: Cluster, nginx: Nginx) -> None:
    owner = cluster.owner("words", PARTITION)
    with nginx.client() as client:
        assert client.get(KEY).json() == {"by": owner.name}
        owner.stop()
        assert client.get(KEY).json() != {"by": owner.name}
        owner.start()
        assert client.get(KEY).json() == {"by": owner.name}
