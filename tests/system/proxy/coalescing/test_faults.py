"""Coalesced reads get the answer of a single read if a backend, a client or a batch fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy import backends
from tests.system.proxy.backends import CATCHING_UP, Answer, Cluster, Request, always
from tests.system.proxy.conftest import KEY, Roles
from tests.system.proxy.crowd import (
    LINE,
    Crowd,
    Gate,
    metric,
    reads,
    send_behind_first,
    value,
    wait_waiting,
)
from tests.system.proxy.test_odd_servers import OddServer, status_slowly


def test_readers_that_disconnect_do_not_delay_others(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    send_behind_first(crowd, nginx, active, [LINE] * 6)
    crowd.disconnect(0, 1, 3, 6)
    gate.open()
    assert [answer.status for answer in crowd.answers(2, 4, 5)] == [200] * 3
    with nginx.client() as client:
        assert client.get(KEY).status == 200
    assert reads(nginx, active) == {"waiting": 0, "in_flight": 0}


def test_a_client_that_reads_slowly_does_not_delay_others(
    roles: Roles, nginx: Nginx, crowd: Crowd
) -> None:
    active = roles[0]
    body = b"x" * 30_000_000
    released = threading.Event()

    def large_first_answer(request: Request) -> Answer:
        """The batch says that this answer is too large for it, and nginx asks again."""
        if request is active.requests[0]:
            assert released.wait(30)
            return Answer(body=body)
        return Answer(body=body) if request in active.single_requests else active.answer(request)

    active.behave = large_first_answer
    send_behind_first(crowd, nginx, active, [LINE] * 3)
    released.set()
    assert [value(a) for a in crowd.answers(1, 2, 3)] == [{"by": active.name}] * 3
    assert crowd.answers(0)[0].body == body


def hang(request: Request) -> None:
    # longer than the time-out under test
    threading.Event().wait(3)


@pytest.mark.parametrize(
    ("fault", "behave"),
    [
        ("has no such route", always(Answer(404, b"{}"))),
        ("does not know the framing", always(Answer(400, b"{}"))),
        ("answers something else", always(Answer(200, b'{"by":"?"}'))),
        ("answers for others", always(Answer(200, b"QTR2" + b"\0" * 12))),
        ("fails", always(Answer(500, b""))),
    ],
)
def test_if_a_backend_cannot_answer_batches_each_read_is_sent_by_itself(
    roles: Roles,
    start_worker: Callable[..., Nginx],
    fault: str,
    behave: Callable[[Request], Answer | None],
) -> None:
    active = roles[0]
    may_fail = threading.Event()

    def behave_later(batch: Request) -> Answer | None:
        assert may_fail.wait(30)
        return behave(batch)

    active.behave_batch = behave_later
    nginx = start_worker()
    with Crowd(nginx) as crowd:
        crowd.send(LINE)
        wait_until(lambda: active.batches == [1], 10, "the first batch")
        crowd.send(*[LINE] * 4)
        wait_waiting(nginx, active, 4)
        may_fail.set()
        assert [value(answer) for answer in crowd.answers()] == [{"by": active.name}] * 5
    assert metric(nginx, "batches_failed_reads_total") == 1
    # no further batch follows soon
    again = Gate(active)
    seen = len(active.requests)
    with Crowd(nginx) as crowd:
        crowd.send(*[LINE] * 4)
        wait_until(lambda: len(active.requests) == seen + 4, 10, "each read to arrive by itself")
        again.open()
    assert active.batches == [1]


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
    start_worker: Callable[..., Nginx],
    fault: str,
    behave: Callable[[Request], Answer | None],
) -> None:
    active, standby, _ = roles
    active.behave_batch = behave
    nginx = start_worker(QUERYABLE_PROXY_READ_TIMEOUT="1")
    with Crowd(nginx) as crowd:
        crowd.send(*[LINE] * 5)
        answers = [value(answer) for answer in crowd.answers()]
    # all but the one that probes the active
    assert answers.count({"by": standby.name}) >= 4
    with nginx.client() as client:
        # no read is left waiting, whether the next probe succeeds or fails
        assert [client.get(KEY).status for _ in range(3)] == [200] * 3
    assert reads(nginx, active)["waiting"] == 0


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_backend_that_sends_its_answer_slowly_does_not_keep_the_call(
    cluster: Cluster, roles: Roles, start_worker: Callable[..., Nginx], part: str
) -> None:
    """It sends a byte within each time-out."""
    active = roles[0]
    odd = OddServer(status_slowly)

    def slowly(batch: Request) -> Answer:
        answer = active.answer_batch(batch)
        assert answer is not None
        return replace(answer, pause=0.3)

    active.behave_batch = slowly
    if part == "head":
        active.stop()
        active.port = odd.port
    try:
        nginx = start_worker(QUERYABLE_PROXY_READ_TIMEOUT="0.6")
        with Crowd(nginx) as crowd:
            crowd.send(*[LINE] * 3)
            assert [answer.status for answer in crowd.answers()] == [200] * 3
        wait_until(lambda: metric(nginx, "batches_failed_reads_total") > 0, 5, "the failure")
        assert reads(nginx, active) == {"waiting": 0, "in_flight": 0}
    finally:
        odd.stop()


def test_a_slow_call_that_is_permitted_is_waited_for(
    roles: Roles, start_worker: Callable[..., Nginx], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: reads gave up after 2.5 read time-outs, and were sent again by themselves."""
    active, standby, _ = roles
    # the fake backend then answers large reads in the batch, as those of earlier versions
    monkeypatch.setattr(backends, "LARGE", 1 << 30)
    large = Answer(body=json.dumps("x" * 40_000_000).encode())

    def first_slowly(batch: Request) -> Answer:
        active.behave = always(large) if len(active.batches) == 1 else active.answer
        answer = active.answer_batch(batch)
        assert answer is not None
        # 3.2 s in all, of the 6 s that it may take
        is_first = len(active.batches) == 1
        return replace(answer, pause=0.2, piece=2_500_000) if is_first else answer

    active.behave_batch = first_slowly
    nginx = start_worker(QUERYABLE_PROXY_READ_TIMEOUT="1")
    with Crowd(nginx) as crowd:
        send_behind_first(crowd, nginx, active, [LINE] * 3)
        slow, *waiting = crowd.answers()
    assert len(value(slow)) == 40_000_000
    assert [value(answer) for answer in waiting] == [{"by": active.name}] * 3
    assert active.batches == [1, 3]
    assert active.single_requests == standby.requests == [], "none was given up"


def test_reads_are_answered_when_their_backend_dies(
    cluster: Cluster, roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    send_behind_first(crowd, nginx, active, [LINE] * 4)
    threading.Thread(target=gate.open).start()
    active.stop()
    assert [answer.status for answer in crowd.answers()] == [200] * 5
    active.start()
    with nginx.client() as client:
        wait_until(
            lambda: value(client.get(KEY)) == {"by": active.name}, 15, "the active to return"
        )
    gate = Gate(active)
    seen = len(active.requests)
    with Crowd(nginx) as others:
        others.send(LINE)
        wait_until(lambda: len(active.requests) == seen + 1, 10, "the first read")
        others.send(LINE, LINE)
        wait_waiting(nginx, active, 2)
        gate.open()
        assert [answer.status for answer in others.answers()] == [200] * 3
    assert active.batches[-1] == 2


def test_without_any_replica_each_read_is_a_503(
    cluster: Cluster, roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    send_behind_first(crowd, nginx, roles[0], [LINE] * 4)
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
    send_behind_first(crowd, nginx, active, [LINE] * 3)
    active.behave = lambda request: CATCHING_UP
    gate.open()
    first, *others = crowd.answers()
    assert first.status == 200
    assert [value(answer) for answer in others] == [{"by": standby.name}] * 3
    assert active.batches == [1, 3]


def test_a_reload_leaves_no_read_waiting(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    send_behind_first(crowd, nginx, active, [LINE] * 4)
    before = nginx.workers()
    reloading = threading.Thread(target=nginx.reload)
    reloading.start()
    wait_until(lambda: set(nginx.workers()) - set(before), 10, "a new worker")
    assert set(before) <= set(nginx.workers()), "the old worker waits for its reads"
    gate.open()
    assert [value(answer) for answer in crowd.answers()] == [{"by": active.name}] * 5
    reloading.join()
