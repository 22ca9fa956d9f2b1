"""A backend that fails is tried last for a short, growing time; retries are limited."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from local.waiting import wait_until
from tests.support.background import Background
from tests.support.client import Client, Response
from tests.support.nginx import Nginx
from tests.system.proxy.backends import (
    CATCHING_UP,
    EPOCH,
    Answer,
    Backend,
    Behaviour,
    Cluster,
    Request,
    always,
)
from tests.system.proxy.conftest import KEY, Roles, StartNginx

# a key of each partition of nine, from the first on, by murmur2
KEYS = [f"/words/k{number}" for number in (12, 3, 8, 2, 4, 0, 5, 6, 1)]


@pytest.fixture
def hang(cluster: Cluster) -> Iterator[Behaviour]:
    """Receives the request and does not answer, like a stopped process."""
    released = threading.Event()

    def behaviour(request: Request) -> None:
        released.wait(60)

    yield behaviour
    released.set()


@pytest.fixture
def client(roles: Roles, nginx: Nginx) -> Iterator[Client]:
    """A kept connection: the same worker of nginx answers all its requests."""
    with nginx.client() as client:
        assert client.get("/proxy/health").status == 200
        yield client


def left_out(client: Client, backend: Backend) -> Any:
    """`left_out` of the backend, as reported by the client's worker."""
    backends = client.get("/proxy/health").json()["backends"]
    return next(b["left_out"] for b in backends if b["id"] == backend.name)


def reader(nginx: Nginx, target: str, done: threading.Event) -> tuple[threading.Thread, list[Any]]:
    """Reads without a pause until `done`; (time, status) of each answer."""
    answers: list[Any] = []

    def read() -> None:
        with nginx.client() as client:
            while not done.is_set():
                answers.append((time.monotonic(), client.get(target).status))

    thread = threading.Thread(target=read)
    thread.start()
    return thread, answers


class Ticks(Background):
    """Knows for how long this process did not run a thread that was ready."""

    _every = 0.005  # s

    def __init__(self) -> None:
        super().__init__("ticks")
        self._times: list[float] = []

    def _work(self, number: int) -> None:
        while not self._stop.is_set():
            self._times.append(time.monotonic())
            time.sleep(self._every)

    def stalls(self, since: float, until: float) -> list[float]:
        """Seconds of each pause of this process between two times."""
        return [
            min(after, until) - max(before, since)
            for before, after in pairwise(self._times)
            if after - before > 4 * self._every and after > since and before < until
        ]


@pytest.mark.parametrize(("fault", "longest"), [("refuses", 0.3), ("hangs", 1.0)])
def test_no_partition_is_unavailable_for_long_when_a_replica(
    roles: Roles, nginx: Nginx, hang: Behaviour, fault: str, longest: float
) -> None:
    for _ in range(5):
        measured = gaps_when_a_replica(fault, roles[0], nginx, hang, longest)
        # after a long stall, the proxy rightly asks others: such a round proves nothing
        if max(stall for _, _, stalls in measured for stall in [0.0, *stalls]) < 0.1:
            break
        recover(roles[0], nginx)
    slow = [entry for entry in nginx.access_log(1) if float(entry["request_time"]) > longest / 2]
    target, gap, stalls = max(measured, key=lambda each: each[1] - sum(each[2]))
    assert gap - sum(stalls) <= longest, (target, gap, stalls, slow)


def gaps_when_a_replica(
    fault: str, broken: Backend, nginx: Nginx, hang: Behaviour, longest: float
) -> list[tuple[str, float, list[float]]]:
    """Each pause of each reader between two answers, and the stalls in it, as the fault begins."""
    done = threading.Event()
    with Ticks() as ticks:
        readers = [reader(nginx, target, done) for target in KEYS]
        try:
            wait_until(lambda: all(len(answers) > 5 for _, answers in readers), 10, "reads")
            if fault == "refuses":
                broken.stop()
            else:
                broken.behave = hang
            ends = time.monotonic() + longest + 0.5
            wait_until(
                lambda: all(answers[-1][0] > ends for _, answers in readers), 20, "reads after that"
            )
        finally:
            done.set()
            for thread, _ in readers:
                thread.join()
    for _, answers in readers:
        assert {status for _, status in answers} == {200}
    return [
        (target, after - before, ticks.stalls(before, after))
        for target, (_, answers) in zip(KEYS, readers, strict=True)
        for (before, _), (after, _) in pairwise(answers)
    ]


def recover(broken: Backend, nginx: Nginx) -> None:
    """Ends the fault, and waits until no worker of nginx avoids the backend."""
    if broken.behave == broken.answer:
        broken.start()
    broken.behave = broken.answer

    def is_used() -> bool:
        with nginx.client() as client:
            return client.get(KEY).json() == {"by": broken.name}

    wait_until(lambda: all(is_used() for _ in range(20)), 20, "the replica to be used")


def test_a_backend_that_hangs_is_probed_at_growing_intervals(
    roles: Roles, client: Client, hang: Behaviour
) -> None:
    active, standby, _ = roles
    probes: list[float] = []

    def record(request: Request) -> Answer | None:
        probes.append(time.monotonic())
        return hang(request)

    active.behave = record
    reads = 0
    began = time.monotonic()
    while len(probes) < 3:
        assert client.get(KEY).json() == {"by": standby.name}
        reads += 1
        assert time.monotonic() < began + 20
    assert reads > 50
    # 0.4 s for the read itself, then 0.25 and 0.5 s
    gaps = [after - before for before, after in pairwise(probes)]
    for gap, expected in zip(gaps, (0.65, 0.9), strict=True):
        # a probe that a busy machine delivers late makes the gap after it shorter
        assert expected - 0.15 < gap < expected + 0.4, gaps
    # one answer removes the entry
    assert left_out(client, active)["failures"] == 3
    active.behave = active.answer
    wait_until(lambda: client.get(KEY).json() == {"by": active.name}, 10, "the active")
    assert left_out(client, active) is None
    assert client.get(KEY).json() == {"by": active.name}


def test_health_shows_until_when_a_backend_is_tried_last(roles: Roles, client: Client) -> None:
    active, standby, _ = roles
    active.stop()
    assert client.get(KEY).json() == {"by": standby.name}
    reported = left_out(client, active)
    assert reported["failures"] == 1
    assert -0.1 < reported["until"] / 1000 - time.time() <= 0.25
    assert left_out(client, standby) is None


def test_requests_without_a_key_avoid_a_backend_that_hangs(
    roles: Roles, client: Client, hang: Behaviour
) -> None:
    active, standby, _ = roles
    active.behave = hang
    assert client.get(KEY).status == 200
    until = left_out(client, active)["until"] / 1000
    began = time.monotonic()
    for _ in range(6):
        assert client.get("/views/words/keys").json()["by"] != active.name
    # also after that time: only point reads probe, because they have a short time-out
    while time.time() < until + 0.1:
        assert client.get(KEY + "/windows").json() == {"by": standby.name}
    for _ in range(6):
        assert client.get("/views/words/keys").json()["by"] != active.name
    assert client.request("POST", "/topics/words/records", b"{}").status == 200
    assert time.monotonic() - began < 2
    # it is the only backend left: it is tried last, but it is tried
    active.behave = active.answer
    for other in roles[1:]:
        other.stop()
    assert client.get("/views/words/keys").json() == {"by": active.name}


def test_a_backend_that_failed_is_tried_if_the_others_cannot_answer(
    roles: Roles, client: Client
) -> None:
    active, standby, other = roles
    active.behave = always(None)
    assert client.get(KEY).json() == {"by": standby.name}
    active.behave = active.answer
    standby.behave = always(CATCHING_UP)
    assert client.get(KEY).json() == {"by": active.name}
    assert other.requests == []


@pytest.mark.parametrize("state", ["draining", "dead"])
def test_a_draining_or_dead_active_is_tried_after_the_standby(
    cluster: Cluster, roles: Roles, nginx: Nginx, state: str
) -> None:
    active, standby, other = roles
    active.state = state
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")
    with nginx.client() as client:
        assert client.get(KEY).json() == {"by": standby.name}
        standby.behave = always(CATCHING_UP)
        assert client.get(KEY).json() == {"by": active.name}
        active.behave = always(None)
        standby.stop()
        assert client.get(KEY).json() == {"by": other.name}


def test_a_slow_active_is_tried_again_if_the_standby_cannot_answer(
    roles: Roles, client: Client, nginx: Nginx
) -> None:
    active, standby, _ = roles

    def slow(request: Request) -> Answer:
        # longer than the time-out under test
        threading.Event().wait(0.7)
        return active.answer(request)

    active.behave = slow
    standby.behave = always(CATCHING_UP)
    assert client.get(KEY).json() == {"by": active.name}
    (entry,) = nginx.access_log(1, KEY)
    # its batch has timed out before
    assert (entry["attempts"], entry["upstream_status"]) == (2, "503, 200")
    assert len(standby.requests) == 1


@pytest.mark.parametrize("arguments", ["min_offset=4:9", "min%5Foffset=4:9", "partials=all"])
def test_a_read_that_waits_for_an_offset_does_not_make_its_backend_look_hung(
    roles: Roles, cluster: Cluster, start_nginx: StartNginx, arguments: str
) -> None:
    active, standby, _ = roles
    target = f"{KEY}?{arguments}"

    def wait(request: Request) -> Answer:
        if "?" not in request.path:
            return active.answer(request)
        # as long as backends wait for an offset
        time.sleep(0.9)
        return CATCHING_UP

    active.behave = wait
    standby.behave = always(CATCHING_UP)
    nginx = start_nginx(cluster.addresses(), workers=1, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    with ThreadPoolExecutor(1) as waiting, nginx.client() as client, nginx.client() as other:
        answer = waiting.submit(other.get, target)
        while not answer.done():
            assert client.get(KEY).json() == {"by": active.name}
            assert left_out(client, active) is None
        assert (answer.result().status, answer.result().json()["code"]) == (503, "catching-up")
    assert len(active.requests_for("?")) == 1
    (entry,) = nginx.access_log(1, target)
    assert (entry["attempts"], entry["upstream_status"]) == (2, "503, 503")
    assert active.single_requests == active.requests_for("?")  # all others were coalesced


@pytest.mark.parametrize(
    ("target", "expected"), [(KEY + "?min_offset=4:9", 2.5), ("/words/YQ?encoding=base64url", 0.4)]
)
def test_a_backend_that_hangs_is_left_later_by_a_read_that_may_wait(
    roles: Roles, client: Client, hang: Behaviour, target: str, expected: float
) -> None:
    active, standby, _ = roles
    active.behave = hang
    began = time.monotonic()
    assert client.get(target).json() == {"by": standby.name}
    assert expected - 0.02 < time.monotonic() - began < expected + 1
    # at once: after a quarter of a second, it would be tried again
    began = time.monotonic()
    assert client.get(target).json() == {"by": standby.name}
    assert time.monotonic() - began < 0.4
    assert left_out(client, active)["failures"] == 1


def test_half_an_answer_never_looks_complete(roles: Roles, client: Client) -> None:
    active, standby, _ = roles
    active.behave = always(
        Answer(200, b'{"by": ', {"Content-Length": "100", "Connection": "close"})
    )
    with pytest.raises(ConnectionError):
        client.get(KEY + "?stale=allow")
    assert (len(active.requests), len(standby.requests)) == (1, 0)


def test_retries_are_limited(roles: Roles, client: Client, nginx: Nginx) -> None:
    requests = 300
    for backend in roles:
        backend.behave = always(None)
    for _ in range(requests):
        response = client.get(KEY)
        assert (response.status, response.json()["code"]) == (503, "no-backend")
        assert response.headers["Retry-After"] == "1"
    attempts = sum(len(backend.single_requests) for backend in roles)
    # the initial tokens and a tenth of the requests; without a limit, three attempts per request
    assert requests + 100 <= attempts <= requests + 100 + requests // 10
    retries = client.get("/proxy/health").json()["retries"]
    assert retries["tokens"] < 1
    assert retries["denied"] > requests / 2
    assert sum(entry["attempts"] for entry in nginx.access_log(requests, KEY)) == attempts
    # without tokens the first answer is passed on
    for backend in roles:
        backend.behave = always(CATCHING_UP)
    for _ in range(8):
        assert client.get(KEY).json() == {"code": "catching-up"}
    assert sum(len(backend.single_requests) for backend in roles) <= attempts + 8 + 1
    # one may have had a token
    assert client.get("/proxy/health").json()["retries"]["denied"] >= retries["denied"] + 7
    for backend in roles:
        backend.behave = backend.answer
    for _ in range(30):
        assert client.get(KEY).status == 200
    assert client.get("/proxy/health").json()["retries"]["tokens"] >= 2


def read_at_once(nginx: Nginx, method: str, count: int) -> list[Response]:
    """The answers to so many readers, each with a connection of its own."""

    def read(_: int) -> Response:
        with nginx.client() as client:
            return client.request(method, KEY)

    with ThreadPoolExecutor(count) as readers:
        return list(readers.map(read, range(count)))


def test_a_crowd_at_a_backend_that_hangs_uses_up_the_budget(
    roles: Roles, nginx: Nginx, hang: Behaviour
) -> None:
    """With more simultaneous readers than two workers have tokens. HEAD: not in a batch."""
    active, standby, other = roles
    active.behave = hang
    statuses = [answer.status for answer in read_at_once(nginx, "HEAD", 300)]
    good = statuses.count(200)
    assert set(statuses) <= {200, 503}
    assert good >= 100
    # a standby that is slow to accept a connection is not reached: another backend is asked
    assert len(other.requests) < good / 10
    # on a busy machine, some answers of the standby come after nginx's time-out
    late = len(standby.requests) + len(other.requests) - good
    assert 0 <= late <= statuses.count(503) + len(other.requests)
    # the log has every attempt, and none that was denied
    attempts = sum(entry["attempts"] for entry in nginx.access_log(len(statuses), KEY))
    received = sum(len(backend.requests) for backend in roles)
    assert received <= attempts <= received + len(other.requests)


def test_a_crowd_whose_batches_are_not_answered_goes_to_the_standby(
    roles: Roles, nginx: Nginx, hang: Behaviour
) -> None:
    active, standby, _ = roles
    active.behave = hang
    by = [answer.json().get("by") for answer in read_at_once(nginx, "GET", 100)]
    # those that probe the active again go on to the standby while the budget for retries lasts
    assert set(by) <= {standby.name, None}
    assert by.count(standby.name) >= 90
