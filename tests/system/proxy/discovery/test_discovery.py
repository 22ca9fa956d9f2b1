"""Discovery reads the topology from any backend, keeps it while none answers, and replaces it only
by a newer one."""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from local.ports import free_ports
from local.waiting import wait_until
from tests.support.client import Response
from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Answer, Backend, Cluster, Request
from tests.system.proxy.conftest import KEY, PARTITION, StartNginx

NEVER = {"QUERYABLE_PROXY_REFRESH": "3600"}


def get(nginx: Nginx, target: str = KEY) -> Response:
    with nginx.client() as client:
        return client.get(target)


@pytest.fixture
def settled(cluster: Cluster, start_nginx: StartNginx) -> Nginx:
    """nginx that has read the topology once and does not refresh it."""
    nginx = start_nginx(cluster.addresses(), **NEVER)
    nginx.wait_for_map(EPOCH)

    def read() -> int:
        return sum(len(backend.topology_answers) for backend in cluster.backends)

    assert read() == 1, "one worker reads it for all"
    return nginx


def rotate(cluster: Cluster, epoch: str) -> None:
    """Moves each partition to the next backend."""
    owned = [backend.active for backend in cluster.backends]
    for backend, new in zip(cluster.backends, owned[-1:] + owned[:-1], strict=True):
        backend.active = new
    cluster.epoch = epoch


def test_without_a_topology_requests_are_answered_with_503(start_nginx: StartNginx) -> None:
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


@pytest.mark.parametrize("workers", [1, 2])
def test_a_topology_is_read_as_soon_as_a_backend_has_one(
    cluster: Cluster, start_nginx: StartNginx, workers: int
) -> None:
    for backend in cluster.backends:
        backend.behave_topology = lambda request: Answer(503, b'{"code":"starting"}')
    nginx = start_nginx(cluster.addresses(), workers=workers)
    assert get(nginx).json()["code"] == "no-topology"
    cluster.backends[1].behave_topology = cluster.backends[1].processors
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
def test_an_invalid_topology_is_skipped(
    cluster: Cluster, start_nginx: StartNginx, answer: Answer | None
) -> None:
    for backend in cluster.backends[:2]:
        backend.behave_topology = lambda request: answer
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    assert get(nginx).status == 200


def test_a_chunked_topology_is_read(cluster: Cluster, start_nginx: StartNginx) -> None:
    text = json.dumps(cluster.topology()).encode()
    parts = [text[:10], text[10:200], text[200:]]
    chunks = (
        b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nA: b\r\n\r\n"
    )

    def chunked(request: Request) -> Answer:
        return Answer(200, chunks, {"Transfer-Encoding": "chunked"})

    for backend in cluster.backends:
        backend.behave_topology = chunked
    nginx = start_nginx(cluster.addresses())
    nginx.wait_for_map(EPOCH)


def test_an_unchanged_topology_is_not_sent_again(cluster: Cluster, nginx: Nginx) -> None:
    def answers() -> list[int]:
        return [status for backend in cluster.backends for status in backend.topology_answers]

    wait_until(lambda: answers().count(304) > 20, 10, "twenty refreshes")
    # each backend has an ETag of its own; a slow one is not asked again at once, and its answer may
    # be lost
    assert answers().count(200) <= 2 * len(cluster.backends)
    assert nginx.health()["age_s"] < 2


def test_a_state_can_change_without_a_new_epoch(cluster: Cluster, nginx: Nginx) -> None:
    cluster.backends[0].state = "draining"
    for backend in cluster.backends:
        # a new state has a new ETag
        backend.behave_topology = lambda request: Answer(
            200, json.dumps(cluster.topology()).encode(), {"ETag": '"new"'}
        )

    def all_report_it() -> bool:
        reports = [nginx.health() for _ in range(20)]
        return all(report["backends"][0]["state"] == "draining" for report in reports)

    wait_until(all_report_it, 10, "the new state")
    assert nginx.health()["backends"][0]["usable"] is False
    assert nginx.health()["epoch"] == EPOCH


def test_the_last_good_topology_is_kept(cluster: Cluster, nginx: Nginx) -> None:
    for backend in cluster.backends:
        backend.behave_topology = lambda request: Answer(503)
    asked = len(cluster.backends[0].topology_requests)
    wait_until(lambda: len(cluster.backends[0].topology_requests) > asked + 5, 10, "refreshes")
    owner = cluster.owner("words", PARTITION)
    assert get(nginx).json() == {"by": owner.name}
    report = get(nginx, "/proxy/health")
    assert report.status == 200
    wait_until(lambda: nginx.health()["age_s"] > 0.5, 10, "an old topology")
    assert set(nginx.health()["failures"].values()) == {"status 503"}


def test_a_newer_epoch_is_read_from_the_backend_that_has_it(
    cluster: Cluster, settled: Nginx
) -> None:
    old_owner = cluster.owner("words", PARTITION)
    before = [len(backend.topology_requests) for backend in cluster.backends]
    rotate(cluster, "1000-2")
    new_owner = cluster.owner("words", PARTITION)
    assert new_owner is not old_owner
    began = time.monotonic()
    assert get(settled).json() == {"by": old_owner.name}
    wait_until(lambda: get(settled).json() == {"by": new_owner.name}, 10, "the new owner")
    assert time.monotonic() - began < 2
    after = [len(backend.topology_requests) for backend in cluster.backends]
    asked = {
        backend.name: now - then
        for backend, now, then in zip(cluster.backends, after, before, strict=True)
    }
    assert asked[old_owner.name] >= 1
    assert sum(asked.values()) - asked[old_owner.name] - asked[new_owner.name] == 0


def test_epochs_are_followed_at_most_ten_times_a_second(cluster: Cluster, settled: Nginx) -> None:
    """All responses have an epoch that no topology has."""

    def claim_newer_epoch(backend: Backend) -> None:
        backend.behave = lambda request: Answer(200, b"{}", {"Topology-Epoch": "2000-1"})

    for backend in cluster.backends:
        claim_newer_epoch(backend)
    before = sum(len(backend.topology_requests) for backend in cluster.backends)
    began = time.monotonic()
    with settled.client() as client:
        while time.monotonic() < began + 1:
            assert client.get(KEY).status == 200
    took = time.monotonic() - began
    followed = sum(len(backend.topology_requests) for backend in cluster.backends) - before
    assert 2 <= followed <= took * 10 + 1


@pytest.mark.parametrize("epoch", ["999-9", "1000-0", "nonsense"])
def test_an_older_epoch_is_never_used(cluster: Cluster, nginx: Nginx, epoch: str) -> None:
    owner = cluster.owner("words", PARTITION)
    rotate(cluster, epoch)
    asked = polls(cluster)
    wait_until(lambda: polls(cluster) > asked + 12, 10, "refreshes")
    assert {nginx.health()["epoch"] for _ in range(20)} == {EPOCH}
    assert get(nginx).json() == {"by": owner.name}


def test_a_worker_uses_no_older_epoch_than_other_workers(
    cluster: Cluster, start_nginx: StartNginx
) -> None:
    """One waits for an answer while another one gets a newer topology."""
    older = json.dumps({**cluster.topology(), "epoch": "1000-0"}).encode()
    requests, newer_is_known = itertools.count(), threading.Event()

    def answer(backend: Backend, request: Request) -> Answer:
        if next(requests) == 0:
            assert newer_is_known.wait(20)
            return Answer(200, older)
        return backend.processors(request)

    for backend in cluster.backends:
        backend.behave_topology = functools.partial(answer, backend)
    nginx = start_nginx(cluster.addresses(), workers=2, QUERYABLE_PROXY_REFRESH="0.1")
    wait_until(lambda: f"topology {EPOCH}" in nginx.error_log(), 10, "one worker's topology", 0.01)
    newer_is_known.set()
    wait_until(lambda: "epoch 1000-0" in nginx.error_log(), 10, "the older epoch to be refused")
    assert {nginx.health()["epoch"] for _ in range(20)} == {EPOCH}


def polls(cluster: Cluster) -> int:
    return sum(len(backend.topology_requests) for backend in cluster.backends)


def test_one_worker_reads_the_topology_for_all(cluster: Cluster, start_nginx: StartNginx) -> None:
    # one is configured: several would be asked for their deployments as well
    first = cluster.addresses().split(",")[0]
    nginx = start_nginx(first, workers=6, QUERYABLE_PROXY_REFRESH="0.2")
    nginx.wait_for_map(EPOCH)
    before, began = polls(cluster), time.monotonic()
    wait_until(lambda: polls(cluster) >= before + 10, 10, "ten refreshes", 0.01)
    # each worker by itself would make six times as many
    assert time.monotonic() - began > (10 - 1) * 0.16
    ages = [each["age_s"] for each in nginx.health()["workers"]]
    assert len(ages) == 6
    assert max(ages) < 1.5
    # the others use what it has read
    cluster.backends[0].state = "draining"
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")


def test_another_worker_goes_on_if_one_hangs_or_dies(
    cluster: Cluster, start_nginx: StartNginx
) -> None:
    nginx = start_nginx(cluster.addresses(), workers=3, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)

    def wait_refreshes() -> None:
        asked = polls(cluster)
        wait_until(lambda: polls(cluster) > asked + 8, 10, "refreshes")

    # one of them reads the topology: each in turn, because it is unknown which
    workers = nginx.workers()
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
        try:
            wait_refreshes()
        finally:
            os.kill(worker, signal.SIGCONT)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
        wait_refreshes()
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")


def test_refreshes_use_one_connection(cluster: Cluster, start_nginx: StartNginx) -> None:
    first = cluster.addresses().split(",")[0]
    nginx = start_nginx(first, workers=1, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    asked = polls(cluster)
    opened = sum(backend.connections for backend in cluster.backends)
    wait_until(lambda: polls(cluster) > asked + 15, 10, "refreshes")
    assert sum(backend.connections for backend in cluster.backends) - opened <= 1
    # those that a backend has closed are opened again, at once
    for backend in cluster.backends:
        backend.close_connections()
    wait_until(lambda: polls(cluster) > asked + 30, 10, "refreshes")
    assert nginx.health().get("failures", {}) == {}


def test_new_backends_are_added_and_old_ones_removed(cluster: Cluster, nginx: Nginx) -> None:
    added = Backend(cluster, "b4")
    cluster.backends.append(added)
    cluster.assign()
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")
    assert any(get(nginx, f"/words/k{n}").json() == {"by": "b4"} for n in range(20))
    for configured in cluster.backends[:3]:
        configured.stop()
    cluster.backends[:3] = []
    cluster.assign()
    # no configured backend is left, but the topology has others
    cluster.epoch = "1000-3"
    nginx.wait_for_map("1000-3")

    def owners() -> set[str]:
        return {get(nginx, f"/words/k{n}").json().get("by", "no backend") for n in range(20)}

    wait_until(lambda: owners() == {"b4"}, 10, "the one that is left to answer for all keys")


def test_hosts_may_be_names(cluster: Cluster, start_nginx: StartNginx) -> None:
    ports = [backend.port for backend in cluster.backends]
    for backend in cluster.backends:
        backend.host = "localhost"
    nginx = start_nginx(",".join(f"localhost:{port}" for port in ports))
    nginx.wait_for_map(EPOCH)
    assert get(nginx).json() == {"by": cluster.owner("words", PARTITION).name}
    addresses = {backend["address"] for backend in nginx.health()["backends"]}
    assert addresses == {f"127.0.0.1:{port}" for port in ports}


@pytest.fixture
def load(nginx: Nginx) -> Iterator[list[Response]]:
    """The answers of a client that reads without a pause, each time on a new connection."""
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


def test_a_reload_loses_neither_requests_nor_the_topology(
    cluster: Cluster, nginx: Nginx, load: list[Response]
) -> None:
    for backend in cluster.backends:
        backend.behave_topology = lambda request: Answer(503)
    began = time.monotonic()
    wait_until(lambda: len(load) > 20, 10, "some reads")
    nginx.reload()
    after = len(load)
    wait_until(lambda: len(load) > after + 50, 10, "more reads")
    owner = cluster.owner("words", PARTITION)
    assert {response.body for response in load} == {b'{"by": "%s"}' % owner.name.encode()}
    # the new workers got it from the old ones, and have not read it from a backend
    assert nginx.health()["epoch"] == EPOCH
    assert nginx.health()["age_s"] > time.monotonic() - began - 0.5


def test_a_reload_breaks_no_connection_in_use(nginx: Nginx) -> None:
    """The clients keep their connections open and do not retry.

    nginx stops the old workers 0.1 s after it has read the configuration. A client or a worker that
    a busy machine has stopped for longer than that cannot be told in time. Then the request before,
    or the pause after it, has taken that long.
    """
    done = threading.Event()
    answered = [0] * 8
    failed: list[str] = []

    def read(number: int) -> None:
        sent = time.monotonic()
        with nginx.client() as client:
            while not done.is_set():
                sent_before, sent = sent, time.monotonic()
                try:
                    assert client.get(f"/words/k{number}").status == 200
                    answered[number] += 1
                except OSError as error:
                    if (waited := time.monotonic() - sent_before) < 0.1:
                        failed.append(f"{error!r}, {waited} s after the request before was sent")
                except AssertionError as error:
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
