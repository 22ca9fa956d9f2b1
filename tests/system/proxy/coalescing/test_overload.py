"""A backend that is overloaded refuses a batch: its reads go to other replicas, and no single reads
follow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy.backends import Answer, Cluster, always
from tests.system.proxy.conftest import KEY, PARTITION, Roles
from tests.system.proxy.crowd import LINE, Crowd, metric, reads, value

OVERLOADED = Answer(
    503, b'{"code":"overloaded"}', {"Retry-After": "1", "Content-Type": "application/problem+json"}
)
TOO_MANY = Answer(429, b'{"code":"too-many-requests"}', OVERLOADED.headers)


@pytest.mark.parametrize("answer", [OVERLOADED, TOO_MANY])
def test_the_standby_answers(roles: Roles, nginx: Nginx, answer: Answer) -> None:
    active, standby, _ = roles
    active.behave_batch = always(answer)
    for _ in range(3):
        with Crowd(nginx) as crowd:
            crowd.send(*[LINE] * 4)
            assert [value(each) for each in crowd.answers()] == [{"by": standby.name}] * 4
    assert active.single_requests == []
    assert sum(active.batches) == 12, "each read was in a batch"
    assert metric(nginx, "retries_total") == 12
    assert {entry["attempts"] for entry in nginx.access_log(12, KEY)} == {2}
    active.behave_batch = active.answer_batch
    with nginx.client() as client:
        assert value(client.get(KEY)) == {"by": active.name}
    assert active.single_requests == []
    assert reads(nginx, active) == {"waiting": 0, "in_flight": 0}


def test_without_another_replica_the_answer_is_503(cluster: Cluster, nginx: Nginx) -> None:
    active = cluster.owner("words", PARTITION)
    active.behave_batch = always(OVERLOADED)
    with Crowd(nginx) as crowd:
        crowd.send(*[LINE] * 4)
        answers = crowd.answers()
    assert {(each.status, each.json()["code"]) for each in answers} == {(503, "overloaded")}
    assert {each.headers["Retry-After"] for each in answers} == {"1"}
    assert {each.headers["Content-Type"] for each in answers} == {"application/problem+json"}
    assert [backend.single_requests for backend in cluster.backends] == [[]] * 3


def test_if_the_standby_is_overloaded_too_its_answer_is_passed_on(
    roles: Roles, nginx: Nginx
) -> None:
    active, standby, other = roles
    active.behave_batch = always(OVERLOADED)
    standby.behave = always(OVERLOADED)
    with nginx.client() as client:
        answer = client.get(KEY)
    assert (answer.status, answer.json()) == (503, {"code": "overloaded"})
    assert (len(active.single_requests), len(standby.single_requests)) == (0, 1)
    assert other.requests == []


def test_if_the_standby_is_down_another_backend_is_asked(roles: Roles, nginx: Nginx) -> None:
    active, standby, other = roles
    active.behave_batch = always(OVERLOADED)
    standby.stop()
    with nginx.client() as client:
        assert value(client.get(KEY)) == {"by": other.name}
    assert active.single_requests == []


def test_retries_have_a_budget(roles: Roles, start_worker: Callable[..., Nginx]) -> None:
    """A worker has 100 tokens at first."""
    active, standby, _ = roles
    active.behave_batch = always(OVERLOADED)
    nginx = start_worker()
    with nginx.client() as client:
        statuses = [client.get(KEY).status for _ in range(200)]
    assert statuses[:100] == [200] * 100
    assert statuses.count(503) > 70
    assert active.single_requests == []
    assert len(standby.single_requests) == statuses.count(200)
    wait_until(lambda: metric(nginx, "denied_retries_total") == statuses.count(503), 5, "the count")
