"""The map: read from any backend, kept while none answers, followed to a greater epoch only."""

from __future__ import annotations

import functools
import itertools
import json
import threading
import time
from collections.abc import Iterator

import pytest

from local.ports import free_ports
from local.waiting import wait_until
from tests.proxy.backends import EPOCH, Answer, Backend, Cluster, Request
from tests.proxy.conftest import KEY, PARTITION, StartNginx
from tests.support.client import Response
from tests.support.nginx import Nginx

pytestmark = pytest.mark.system

NEVER = {"QUERYABLE_PROXY_REFRESH": "3600"}


def get(nginx: Nginx, target: str = KEY) -> Response:
    with nginx.client() as client:
        return client.get(target)


@pytest.fixture
def settled(cluster: Cluster, start_nginx: StartNginx) -> Nginx:
    """nginx that has read the map once and does not read it again of its own."""
    nginx = start_nginx(cluster.addresses(), **NEVER)
    nginx.wait_for_map(EPOCH)
    return nginx


def turn(cluster: Cluster, epoch: str) -> None:
    """Each partition moves to the next backend."""
    holds = [backend.holds for backend in cluster.backends]
    for backend, new in zip(cluster.backends, holds[-1:] + holds[:-1], strict=True):
        backend.holds = new
    cluster.epoch = epoch


def test_without_a_map_there_is_no_topology(start_nginx: StartNginx) -> None:
    (port,) = free_ports(1)
    nginx = start_nginx(f"127.0.0.1:{port}")
    for target in (KEY, "/views", "/processors"):
        response = get(nginx, target)
        assert (response.status, response.json()["code"]) == (503, "no-topology")
        assert response.headers["Retry-After"] == "1"
        assert response.headers["Content-Type"] == "application/problem+json"
    report = get(nginx, "/proxy/health")
    assert (report.status, report.json()["status"]) == (503, "no-topology")
    assert report.headers["Retry-After"] == "1"

    def failures() -> dict[str, str]:
        return nginx.health().get("failures", {})

    wait_until(failures, 10, "a failure")
    assert failures() == {f"127.0.0.1:{port}": "connect: connection refused"}


def test_a_map_is_found_as_soon_as_a_backend_has_one(
    cluster: Cluster, start_nginx: StartNginx
) -> None:
    for backend in cluster.backends:
        backend.topology = lambda request: Answer(503, b'{"code":"starting"}')
    nginx = start_nginx(cluster.addresses())
    assert get(nginx).json()["code"] == "no-topology"
    cluster.backends[1].topology = cluster.backends[1].processors
    began = time.monotonic()
    nginx.wait_for_map(EPOCH)
    assert time.monotonic() - began < 2
    assert get(nginx).status == 200


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"not json"),
        Answer(200, b"[]"),
        Answer(200, b'{"epoch": "x", "views": {}, "processors": []}'),
        Answer(200, b"{}", {"Content-Length": "100000000000"}),
        Answer(500),
        None,
    ],
)
def test_what_is_no_map_is_passed_over(
    cluster: Cluster, start_nginx: StartNginx, answer: Answer | None
) -> None:
    for backend in cluster.backends[:2]:
        backend.topology = lambda request: answer
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    assert get(nginx).status == 200


def test_a_chunked_map_is_read(cluster: Cluster, start_nginx: StartNginx) -> None:
    text = json.dumps(cluster.map()).encode()
    parts = [text[:10], text[10:200], text[200:]]
    chunks = (
        b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nA: b\r\n\r\n"
    )

    class Chunked(Answer):
        pass

    def chunked(request: Request) -> Answer:
        return Chunked(200, chunks, {"Transfer-Encoding": "chunked"})

    for backend in cluster.backends:
        backend.topology = chunked
    nginx = start_nginx(cluster.addresses())
    nginx.wait_for_map(EPOCH)


def test_an_unchanged_map_is_not_sent_again(cluster: Cluster, nginx: Nginx) -> None:
    def answers() -> list[int]:
        return [status for backend in cluster.backends for status in backend.map_answers]

    wait_until(lambda: answers().count(304) > 20, 10, "twenty refreshes")
    assert answers().count(200) == len(nginx.workers())
    assert nginx.health()["age_s"] < 2


def test_a_state_changes_without_an_epoch(cluster: Cluster, nginx: Nginx) -> None:
    cluster.backends[0].state = "draining"
    for backend in cluster.backends:
        # each instance has a revision of its own in its ETag
        backend.topology = lambda request: Answer(
            200, json.dumps(cluster.map()).encode(), {"ETag": '"new"'}
        )

    def noticed() -> bool:
        reports = [nginx.health() for _ in range(20)]
        return all(report["backends"][0]["state"] == "draining" for report in reports)

    wait_until(noticed, 10, "the new state")
    assert nginx.health()["backends"][0]["usable"] is False
    assert nginx.health()["epoch"] == EPOCH


def test_the_last_good_map_is_kept(cluster: Cluster, nginx: Nginx) -> None:
    for backend in cluster.backends:
        backend.topology = lambda request: Answer(503)
    asked = len(cluster.backends[0].map_requests)
    wait_until(lambda: len(cluster.backends[0].map_requests) > asked + 5, 10, "refreshes")
    owner = cluster.holder("words", PARTITION)
    assert get(nginx).json() == {"by": owner.name}
    report = get(nginx, "/proxy/health")
    assert report.status == 200
    wait_until(lambda: nginx.health()["age_s"] > 0.5, 10, "an old map")
    assert set(nginx.health()["failures"].values()) == {"status 503"}


def test_a_greater_epoch_is_followed_to_the_backend_that_has_it(
    cluster: Cluster, settled: Nginx
) -> None:
    old_owner = cluster.holder("words", PARTITION)
    before = [len(backend.map_requests) for backend in cluster.backends]
    turn(cluster, "1000-2")
    new_owner = cluster.holder("words", PARTITION)
    assert new_owner is not old_owner
    began = time.monotonic()
    assert get(settled).json() == {"by": old_owner.name}
    wait_until(lambda: get(settled).json() == {"by": new_owner.name}, 10, "the new owner")
    assert time.monotonic() - began < 2
    after = [len(backend.map_requests) for backend in cluster.backends]
    asked = {
        backend.name: now - then
        for backend, now, then in zip(cluster.backends, after, before, strict=True)
    }
    assert asked[old_owner.name] >= 1
    assert sum(asked.values()) - asked[old_owner.name] - asked[new_owner.name] == 0


def test_epochs_are_followed_ten_times_a_second_at_most(cluster: Cluster, settled: Nginx) -> None:
    """All responses boast of an epoch that no map ever has."""

    def boast(backend: Backend) -> None:
        backend.behave = lambda request: Answer(200, b"{}", {"Topology-Epoch": "2000-1"})

    for backend in cluster.backends:
        boast(backend)
    before = sum(len(backend.map_requests) for backend in cluster.backends)
    began = time.monotonic()
    with settled.client() as client:
        while time.monotonic() < began + 1:
            assert client.get(KEY).status == 200
    took = time.monotonic() - began
    followed = sum(len(backend.map_requests) for backend in cluster.backends) - before
    assert 2 <= followed <= took * 10 + 1


@pytest.mark.parametrize("epoch", ["999-9", "1000-0", "nonsense"])
def test_a_lesser_epoch_is_never_taken(cluster: Cluster, nginx: Nginx, epoch: str) -> None:
    owner = cluster.holder("words", PARTITION)
    turn(cluster, epoch)
    asked = sum(len(backend.map_requests) for backend in cluster.backends)
    wait_until(
        lambda: sum(len(b.map_requests) for b in cluster.backends) > asked + 12, 10, "refreshes"
    )
    assert {nginx.health()["epoch"] for _ in range(20)} == {EPOCH}
    assert get(nginx).json() == {"by": owner.name}


def test_a_worker_that_starts_takes_no_lesser_epoch_than_another_has(
    cluster: Cluster, start_nginx: StartNginx
) -> None:
    for backend in cluster.backends:
        backend.topology = lambda request: Answer(503, b'{"code":"starting"}')
    nginx = start_nginx(cluster.addresses(), workers=2, **NEVER)
    requests, held, lesser = itertools.count(), threading.Event(), threading.Event()

    def to_one_and_then_no_more(backend: Backend, request: Request) -> Answer:
        if next(requests) > 0:
            held.set()
            lesser.wait(20)
        return backend.processors(request)

    for backend in cluster.backends:
        backend.topology = functools.partial(to_one_and_then_no_more, backend)
    wait_until(lambda: f"topology {EPOCH}" in nginx.error_log(), 10, "one worker's map")
    assert held.wait(10), "the other one asks, too"
    turn(cluster, "1000-0")
    lesser.set()
    wait_until(lambda: "epoch 1000-0" in nginx.error_log(), 10, "it to be refused")
    assert {nginx.health()["epoch"] for _ in range(20)} == {EPOCH}


def test_a_new_backend_is_found_and_an_old_one_forgotten(cluster: Cluster, nginx: Nginx) -> None:
    added = Backend(cluster, "b4")
    cluster.backends.append(added)
    cluster.spread()
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")
    assert any(get(nginx, f"/words/k{n}").json() == {"by": "b4"} for n in range(20))
    for configured in cluster.backends[:3]:
        configured.stop()
    cluster.backends[:3] = []
    cluster.spread()
    # none of the configured ones is left: the map itself names whom to ask
    cluster.epoch = "1000-3"
    nginx.wait_for_map("1000-3")
    assert {get(nginx, f"/words/k{n}").json()["by"] for n in range(20)} == {"b4"}


def test_hosts_may_be_names(cluster: Cluster, start_nginx: StartNginx) -> None:
    ports = [backend.port for backend in cluster.backends]
    for backend in cluster.backends:
        backend.host = "localhost"
    nginx = start_nginx(",".join(f"localhost:{port}" for port in ports))
    nginx.wait_for_map(EPOCH)
    assert get(nginx).json() == {"by": cluster.holder("words", PARTITION).name}
    addresses = {backend["address"] for backend in nginx.health()["backends"]}
    assert addresses == {f"127.0.0.1:{port}" for port in ports}


@pytest.fixture
def load(nginx: Nginx) -> Iterator[list[Response]]:
    """Reads without a pause, each on a connection of its own; the answers."""
    answers: list[Response] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            answers.append(get(nginx))

    thread = threading.Thread(target=read)
    thread.start()
    yield answers
    done.set()
    thread.join()


def test_a_reload_loses_neither_requests_nor_the_map(
    cluster: Cluster, nginx: Nginx, load: list[Response]
) -> None:
    for backend in cluster.backends:
        backend.topology = lambda request: Answer(503)
    wait_until(lambda: len(load) > 20, 10, "some reads")
    nginx.reload()
    after = len(load)
    wait_until(lambda: len(load) > after + 50, 10, "more reads")
    owner = cluster.holder("words", PARTITION)
    assert {response.body for response in load} == {b'{"by": "%s"}' % owner.name.encode()}
    # the map is older than the workers, who have not read one themselves
    assert nginx.health()["epoch"] == EPOCH
    assert nginx.health()["age_s"] is None


def test_a_reload_breaks_no_connection_that_is_in_use(nginx: Nginx) -> None:
    """Readers on connections that stay open; none of them tries anything again."""
    done = threading.Event()
    answered = [0] * 8
    failed: list[str] = []

    def read(number: int) -> None:
        with nginx.client() as client:
            while not done.is_set():
                try:
                    assert client.get(f"/words/k{number}").status == 200
                    answered[number] += 1
                except (OSError, AssertionError) as error:
                    failed.append(repr(error))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(len(answered))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            before = list(answered)
            nginx.reload()
            wait_until(
                lambda before=before: all(
                    now > then + 5 for now, then in zip(answered, before, strict=True)
                ),
                20,
                "reads from all",
            )
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failed == []
