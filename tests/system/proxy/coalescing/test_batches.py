"""Point reads that wait for the same backend are sent in one batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count, islice

import pytest

from local.waiting import wait_until
from model.partitioner import partition_of
from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Answer, Cluster
from tests.system.proxy.conftest import KEY, PARTITION, Roles, StartNginx
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


def test_reads_that_arrive_during_a_call_are_coalesced(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active, standby, _ = roles
    send_behind_first(crowd, nginx, active, [LINE] * 20)
    assert len(active.requests) == 1
    gate.open()
    answers = crowd.answers()
    assert [value(answer) for answer in answers] == [{"by": active.name}] * 21
    assert {answer.headers["Topology-Epoch"] for answer in answers} == {EPOCH}
    assert {answer.headers["Served-By"] for answer in answers} == {f"{active.name}; active"}
    assert (active.batches, standby.requests) == ([1, 20], [])
    assert metric(nginx, "batch_reads_sum") == 21
    assert metric(nginx, 'batch_reads_bucket{le="16"}') == 1
    assert metric(nginx, 'batch_reads_bucket{le="32"}') == 2
    assert metric(nginx, 'batch_reads_bucket{le="+Inf"}') == 2
    entries = nginx.access_log(21, KEY)
    assert sorted(entry["batch"] for entry in entries) == [1] + [20] * 20
    assert {(e["attempts"], e["served_by"]) for e in entries} == {(1, f"{active.name}; active")}


def test_misses_and_found_keys_are_in_one_batch(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    absent = next(
        f"/words/k{n}" for n in count() if partition_of("murmur2")(f"k{n}".encode(), 9) == PARTITION
    )
    send_behind_first(crowd, nginx, active, [LINE, f"GET {absent} HTTP/1.1", LINE])
    active.behave = lambda request: (
        active.answer(request) if request.path == KEY else Answer(404, b'{"code":"key-not-found"}')
    )
    gate.open()
    answers = crowd.answers()
    assert [answer.status for answer in answers] == [200, 200, 404, 200]
    assert answers[2].json() == {"code": "key-not-found"}
    assert value(answers[3]) == {"by": active.name}
    assert active.batches == [1, 3]


def test_reads_wait_only_for_their_own_backend(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active, *others = roles
    send_behind_first(crowd, nginx, active, [LINE])
    with nginx.client() as client:
        # keys of partitions of the other backends
        served = {value(client.get(f"/words/{key}"))["by"] for key in ("k12", "k8")}
    assert served == {backend.name for backend in others}


def test_a_read_for_an_idle_backend_does_not_wait(roles: Roles, nginx: Nginx) -> None:
    with nginx.client() as client:
        for _ in range(10):
            assert client.get(KEY).status == 200
    assert (len(roles[0].requests), roles[0].batches) == (10, [1] * 10)


def test_a_setting_turns_coalescing_off(
    roles: Roles, start_worker: Callable[..., Nginx], gate: Gate
) -> None:
    nginx = start_worker(QUERYABLE_PROXY_BATCHES="0")
    with Crowd(nginx) as crowd:
        crowd.send(*[LINE] * 20)
        wait_until(lambda: len(roles[0].requests) == 20, 10, "each read to arrive by itself")
        gate.open()
        assert {answer.status for answer in crowd.answers()} == {200}
    assert roles[0].batches == []


def test_several_batches_may_be_in_flight(
    roles: Roles, start_worker: Callable[..., Nginx], gate: Gate
) -> None:
    nginx = start_worker(QUERYABLE_PROXY_BATCHES="2")
    with Crowd(nginx) as crowd:
        crowd.send(LINE)
        wait_until(lambda: len(roles[0].requests) == 1, 10, "the first read")
        crowd.send(LINE, LINE)
        assert [answer.status for answer in crowd.answers(1, 2)] == [200, 200]
        assert sum(roles[0].batches) == 3
        gate.open()
        crowd.answers(0)


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_no_batch_is_empty(roles: Roles, start_worker: Callable[..., Nginx], batches: int) -> None:
    """A batch waits for more reads, and another call may send them meanwhile."""
    nginx = start_worker(QUERYABLE_PROXY_BATCHES=str(batches))
    with Crowd(nginx) as crowd:
        crowd.send(*[LINE] * 12)
        crowd.read_again(LINE, 1500)
        assert {answer.status for answer in crowd.answers()} == {200}
    assert 0 not in roles[0].batches
    assert sum(roles[0].batches) == 1512, "some were sent by themselves"
    assert "[warn]" not in nginx.error_log()
    assert "[alert]" not in nginx.error_log()


def test_a_batch_is_limited_in_bytes(roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate) -> None:
    active = roles[0]
    long = (f"{'x' * 8_000}{number}" for number in count())
    keys = (key for key in long if partition_of("murmur2")(key.encode(), 9) == PARTITION)
    lines = [f"GET /words/{key} HTTP/1.1" for key in islice(keys, 21)]
    crowd.send(lines[0])
    wait_until(lambda: len(active.requests) == 1, 10, "the first read")
    crowd.send(*lines[1:])
    wait_waiting(nginx, active, 16)
    wait_until(lambda: len(active.requests) == 5, 10, "those that did not fit")
    assert metric(nginx, "batches_full_total") == 4
    gate.open()
    assert {answer.status for answer in crowd.answers()} == {200}


def test_the_epoch_of_a_batch_is_followed(
    cluster: Cluster, roles: Roles, start_worker: Callable[..., Nginx], gate: Gate
) -> None:
    nginx = start_worker(QUERYABLE_PROXY_REFRESH="60")
    with Crowd(nginx) as crowd:
        send_behind_first(crowd, nginx, roles[0], [LINE] * 2)
        cluster.epoch = "1000-2"
        gate.open()
        crowd.answers()
    nginx.wait_for_map("1000-2")


def test_an_invalid_setting_is_named(cluster: Cluster, start_nginx: StartNginx) -> None:
    with pytest.raises(AssertionError, match="QUERYABLE_PROXY_BATCHES: 'two' is not a whole"):
        start_nginx(cluster.addresses(), QUERYABLE_PROXY_BATCHES="two")


def test_health_shows_waiting_reads(roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate) -> None:
    send_behind_first(crowd, nginx, roles[0], [LINE] * 2)
    assert reads(nginx, roles[0]) == {"waiting": 2, "in_flight": 1}
    gate.open()
    crowd.answers()
    assert json.dumps(nginx.health())
