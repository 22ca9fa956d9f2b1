"""Point reads that wait for the same backend are coalesced. Whatever goes wrong, each of them gets
the answer of a single read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from itertools import count, islice

import pytest

from local.waiting import wait_until
from model.partitioner import partition_of
from tests.proxy.backends import CATCHING_UP, EPOCH, Answer, Backend, Cluster, Request, always
from tests.proxy.conftest import KEY, PARTITION, StartNginx
from tests.proxy.crowd import (
    LINE,
    PATIENT,
    Crowd,
    Gate,
    metric,
    reads,
    send_behind_leader,
    wait_waiting,
)
from tests.support.nginx import Nginx

pytestmark = pytest.mark.system

Roles = tuple[Backend, Backend, Backend]


@pytest.fixture
def start_one(cluster: Cluster, start_nginx: StartNginx) -> Callable[..., Nginx]:
    """nginx with one worker, which has the topology."""

    def start(**environment: str) -> Nginx:
        nginx = start_nginx(
            cluster.addresses(), 1, **{**PATIENT, "QUERYABLE_PROXY_REFRESH": "0.1", **environment}
        )
        nginx.wait_for_map(EPOCH)
        return nginx

    return start


@pytest.fixture
def nginx(start_one: Callable[..., Nginx]) -> Nginx:
    return start_one()


@pytest.fixture
def crowd(nginx: Nginx) -> Iterator[Crowd]:
    with Crowd(nginx) as crowd:
        yield crowd
    assert "lua entry" not in nginx.error_log()
    assert "attempt to" not in nginx.error_log()


@pytest.fixture
def gate(roles: Roles) -> Iterator[Gate]:
    """The active holds its first request."""
    gate = Gate(roles[0])
    yield gate
    gate.open()


def test_reads_that_arrive_during_a_call_are_coalesced(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active, standby, _ = roles
    send_behind_leader(crowd, nginx, active, [LINE] * 20)
    assert len(active.requests) == 1
    gate.open()
    answers = crowd.answers()
    assert [answer.json() for answer in answers] == [{"by": active.name}] * 21
    assert {answer.headers["Topology-Epoch"] for answer in answers} == {EPOCH}
    assert {answer.headers["Served-By"] for answer in answers} == {f"{active.name}; active"}
    assert (active.batches, standby.requests) == ([20], [])
    assert metric(nginx, "batch_reads_sum") == 20
    assert metric(nginx, 'batch_reads_bucket{le="16"}') == 0
    assert metric(nginx, 'batch_reads_bucket{le="32"}') == 1
    assert metric(nginx, 'batch_reads_bucket{le="+Inf"}') == 1
    entries = nginx.access_log(21, KEY)
    assert sorted(str(entry["batch"]) for entry in entries) == ["20"] * 20 + ["None"]
    assert {(e["attempts"], e["served_by"]) for e in entries} == {(1, f"{active.name}; active")}


def test_reads_wait_only_for_their_own_backend(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active, *others = roles
    send_behind_leader(crowd, nginx, active, [LINE])
    with nginx.client() as client:
        # keys of partitions of the other backends
        served = {client.get(f"/words/{key}").json()["by"] for key in ("k12", "k8")}
    assert served == {backend.name for backend in others}


def test_sequential_reads_are_sent_by_themselves(roles: Roles, nginx: Nginx) -> None:
    with nginx.client() as client:
        for _ in range(10):
            assert client.get(KEY).status == 200
    assert (len(roles[0].requests), roles[0].batches) == (10, [])


def test_after_a_batch_the_leader_is_skipped(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    send_behind_leader(crowd, nginx, active, [LINE] * 2)
    gate.open()
    crowd.answers()
    with nginx.client() as client:
        # a batch of the reads that arrive in one turn of the event loop
        assert [client.get(KEY).status for _ in range(3)] == [200] * 3
    # the first of the three found itself alone
    assert active.batches == [2, 1]


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        (f"GET {KEY}?stale=allow HTTP/1.1", ""),
        (f"GET {KEY}? HTTP/1.1", ""),
        (f"GET {KEY}/windows HTTP/1.1", ""),
        (f"HEAD {KEY} HTTP/1.1", ""),
        (f"GET {KEY} HTTP/1.0", ""),
        (LINE, "Authorization: Basic x\r\n"),
        (LINE, "Accept: application/octet-stream\r\n"),
        (LINE, "Accept: */*\r\nAccept: text/plain\r\n"),
        (LINE, 'If-None-Match: "x"\r\n'),
        (LINE, 'If-Match: "x"\r\n'),
        (LINE, "If-Modified-Since: Sat, 21 Nov 2026 13:31:55 GMT\r\n"),
        (LINE, "Range: bytes=0-1\r\n"),
        (LINE, "Content-Length: 0\r\n"),
        (LINE, "Transfer-Encoding: chunked\r\n\r\n0\r\n"),
        # a backend might refuse these
        (LINE, "X-A: \x01\r\n"),
        (LINE, "X-A: é\r\n"),
        (LINE, "X-A: 1\r\nX-A: 2\r\n"),
        (LINE, "X-Forwarded-Ssl: on\r\n"),
        (LINE, f"X-A: {'x' * 8_100}\r\n"),
        (LINE, "".join(f"X-{number}: 1\r\n" for number in range(64))),
    ],
)
def test_other_requests_are_sent_by_themselves(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate, line: str, headers: str
) -> None:
    active = roles[0]
    crowd.send(LINE)
    wait_until(lambda: len(active.requests) == 1, 10, "the leader")
    crowd.send(line, headers=headers)
    wait_until(lambda: len(active.requests) == 2, 10, "the other request, during the leader's call")
    gate.open()
    assert crowd.answers(0)[0].status == 200
    assert active.batches == []


def test_reads_with_ordinary_headers_are_coalesced(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    crowd.send(LINE)
    wait_until(lambda: len(roles[0].requests) == 1, 10, "the leader")
    crowd.send(LINE, headers="Accept: */*\r\nUser-Agent: x\r\nConnection: close\r\n")
    crowd.send(LINE, headers="Accept: application/json\r\n")
    wait_waiting(nginx, roles[0], 2)
    gate.open()
    answers = crowd.answers()
    assert [answer.status for answer in answers] == [200] * 3
    assert [answer.headers["Connection"] for answer in answers] == [
        "keep-alive",
        "close",
        "keep-alive",
    ]


def test_a_setting_turns_coalescing_off(
    roles: Roles, start_one: Callable[..., Nginx], gate: Gate
) -> None:
    nginx = start_one(QUERYABLE_PROXY_BATCHES="0")
    with Crowd(nginx) as crowd:
        crowd.send(*[LINE] * 20)
        wait_until(lambda: len(roles[0].requests) == 20, 10, "each read to arrive by itself")
        gate.open()
        assert {answer.status for answer in crowd.answers()} == {200}
    assert roles[0].batches == []


def test_several_batches_may_be_in_flight(
    roles: Roles, start_one: Callable[..., Nginx], gate: Gate
) -> None:
    nginx = start_one(QUERYABLE_PROXY_BATCHES="2")
    with Crowd(nginx) as crowd:
        crowd.send(LINE)
        wait_until(lambda: len(roles[0].requests) == 1, 10, "the leader")
        crowd.send(LINE, LINE)
        assert [answer.status for answer in crowd.answers(1, 2)] == [200, 200]
        assert sum(roles[0].batches) == 2
        gate.open()
        crowd.answers(0)


def test_a_leader_that_disconnects_delays_nobody(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    send_behind_leader(crowd, nginx, active, [LINE] * 5)
    crowd.disconnect(0)
    assert [a.json() for a in crowd.answers(*range(1, 6))] == [{"by": active.name}] * 5
    assert active.batches == [5], "the backend had not answered the leader"


def test_waiting_readers_that_disconnect_delay_nobody(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    send_behind_leader(crowd, nginx, active, [LINE] * 6)
    crowd.disconnect(1, 3, 6)
    gate.open()
    assert [answer.status for answer in crowd.answers(0, 2, 4, 5)] == [200] * 4
    with nginx.client() as client:
        assert client.get(KEY).status == 200
    assert reads(nginx, active) == {"waiting": 0, "in_flight": 0}


def test_a_client_that_reads_slowly_delays_nobody(roles: Roles, nginx: Nginx, crowd: Crowd) -> None:
    active = roles[0]
    body = b"x" * 30_000_000
    released = threading.Event()

    def large_first_answer(request: Request) -> Answer:
        if request is active.requests[0]:
            assert released.wait(30)
            return Answer(body=body)
        return active.answer(request)

    active.behave = large_first_answer
    send_behind_leader(crowd, nginx, active, [LINE] * 3)
    released.set()
    assert [a.json() for a in crowd.answers(1, 2, 3)] == [{"by": active.name}] * 3
    assert crowd.answers(0)[0].body == body


def hang(request: Request) -> None:
    # a fixed time, because the time-out is under test
    threading.Event().wait(3)


@pytest.mark.parametrize(
    ("fault", "behave"),
    [
        ("has no such route", always(Answer(404, b"{}"))),
        ("answers something else", always(Answer(200, b'{"by":"?"}'))),
        ("answers for others", always(Answer(200, b"QTR1" + b"\0" * 12))),
        ("fails", always(Answer(500, b""))),
    ],
)
def test_if_a_backend_cannot_answer_batches_each_read_is_sent_by_itself(
    roles: Roles,
    start_one: Callable[..., Nginx],
    gate: Gate,
    fault: str,
    behave: Callable[[Request], Answer | None],
) -> None:
    active = roles[0]
    active.behave_batch = behave
    nginx = start_one()
    with Crowd(nginx) as crowd:
        send_behind_leader(crowd, nginx, active, [LINE] * 4)
        gate.open()
        assert [answer.json() for answer in crowd.answers()] == [{"by": active.name}] * 5
    assert metric(nginx, "batches_failed_reads_total") == 4
    # and no batch soon after
    again = Gate(active)
    seen = len(active.requests)
    with Crowd(nginx) as crowd:
        crowd.send(*[LINE] * 4)
        wait_until(lambda: len(active.requests) == seen + 4, 10, "each read to arrive by itself")
        again.open()
    assert active.batches == [4]


@pytest.mark.parametrize(
    ("fault", "behave"),
    [
        ("hangs", hang),
        ("breaks off", always(None)),
        ("sends endless headers", always(Answer(200, b"", {"X": "x" * 40_000}))),
    ],
)
def test_if_a_batch_fails_the_standby_answers(
    roles: Roles,
    start_one: Callable[..., Nginx],
    gate: Gate,
    fault: str,
    behave: Callable[[Request], Answer | None],
) -> None:
    active, standby, _ = roles
    active.behave_batch = behave
    nginx = start_one(QUERYABLE_PROXY_READ_TIMEOUT="1")
    with Crowd(nginx) as crowd:
        send_behind_leader(crowd, nginx, active, [LINE] * 4)
        gate.open()
        leader, *others = [answer.json() for answer in crowd.answers()]
    assert leader == {"by": active.name}
    # all but the one that probes the active
    assert others.count({"by": standby.name}) >= 3
    with nginx.client() as client:
        # whatever the next probe finds, no read is left waiting
        assert [client.get(KEY).status for _ in range(3)] == [200] * 3
    assert reads(nginx, active)["waiting"] == 0


def test_reads_are_answered_when_the_backend_of_their_leader_dies(
    cluster: Cluster, roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    send_behind_leader(crowd, nginx, active, [LINE] * 4)
    threading.Thread(target=gate.open).start()
    active.stop()
    assert [answer.status for answer in crowd.answers()] == [200] * 5
    active.start()
    with nginx.client() as client:
        wait_until(
            lambda: client.get(KEY).json() == {"by": active.name}, 15, "the active to return"
        )
    gate = Gate(active)
    seen = len(active.requests)
    with Crowd(nginx) as others:
        others.send(LINE)
        wait_until(lambda: len(active.requests) == seen + 1, 10, "the leader")
        others.send(LINE, LINE)
        wait_waiting(nginx, active, 2)
        gate.open()
        assert [answer.status for answer in others.answers()] == [200] * 3
    assert active.batches[-1] == 2


def test_without_any_replica_each_read_is_a_503(
    cluster: Cluster, roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    send_behind_leader(crowd, nginx, roles[0], [LINE] * 4)
    threading.Thread(target=gate.open).start()
    for backend in cluster.backends:
        backend.stop()
    assert {answer.status for answer in crowd.answers()} <= {200, 503}
    for backend in cluster.backends:
        backend.start()
    with nginx.client() as client:
        wait_until(lambda: client.get(KEY).status == 200, 15, "an answer")
    assert reads(nginx, roles[0])["waiting"] == 0


def test_reads_that_a_batch_does_not_answer_are_sent_by_themselves(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active, standby, _ = roles
    send_behind_leader(crowd, nginx, active, [LINE] * 3)
    active.behave = lambda request: CATCHING_UP
    gate.open()
    leader, *others = crowd.answers()
    assert leader.status == 200
    assert [answer.json() for answer in others] == [{"by": standby.name}] * 3
    assert active.batches == [3]


def test_a_batch_is_limited_in_bytes(roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate) -> None:
    active = roles[0]
    long = (f"{'x' * 8_000}{number}" for number in count())
    keys = (key for key in long if partition_of("murmur2")(key.encode(), 9) == PARTITION)
    lines = [f"GET /words/{key} HTTP/1.1" for key in islice(keys, 21)]
    crowd.send(lines[0])
    wait_until(lambda: len(active.requests) == 1, 10, "the leader")
    crowd.send(*lines[1:])
    wait_waiting(nginx, active, 16)
    wait_until(lambda: len(active.requests) == 5, 10, "those that did not fit")
    assert metric(nginx, "batches_full_total") == 4
    gate.open()
    assert {answer.status for answer in crowd.answers()} == {200}


def test_a_reload_leaves_no_read_waiting(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    send_behind_leader(crowd, nginx, active, [LINE] * 4)
    reloading = threading.Thread(target=nginx.reload)
    reloading.start()
    answers = crowd.answers(1, 2, 3, 4)
    assert [answer.json() for answer in answers] == [{"by": active.name}] * 4
    gate.open()
    assert crowd.answers(0)[0].status == 200
    reloading.join()


def test_the_epoch_of_a_batch_is_followed(
    cluster: Cluster, roles: Roles, start_one: Callable[..., Nginx], gate: Gate
) -> None:
    nginx = start_one(QUERYABLE_PROXY_REFRESH="60")
    with Crowd(nginx) as crowd:
        send_behind_leader(crowd, nginx, roles[0], [LINE] * 2)
        cluster.epoch = "1000-2"
        gate.open()
        crowd.answers()
    nginx.wait_for_map("1000-2")


def test_an_invalid_setting_is_named(cluster: Cluster, start_nginx: StartNginx) -> None:
    with pytest.raises(AssertionError, match="QUERYABLE_PROXY_BATCHES: 'two' is not a whole"):
        start_nginx(cluster.addresses(), QUERYABLE_PROXY_BATCHES="two")


def test_health_shows_waiting_reads(roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate) -> None:
    send_behind_leader(crowd, nginx, roles[0], [LINE] * 2)
    assert reads(nginx, roles[0]) == {"waiting": 2, "in_flight": 1}
    gate.open()
    crowd.answers()
    assert json.dumps(nginx.health())
