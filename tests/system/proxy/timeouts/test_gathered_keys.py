"""Reads of keys that may be in several partitions: a backend asks the others before it answers. If
one of them hangs, the backend that waits for it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from model.partitioner import partition_of
from tests.support.client import Client
from tests.system.proxy.backends import EPOCH, Answer, Backend, Cluster, Request
from tests.system.proxy.conftest import KEY, PARTITION, Roles, StartNginx

place = partition_of("murmur2")
WAIT_S = 2.1  # for an instance that hangs: 2 s, and a little
# a key of the same partition as KEY, of nine and of seven partitions
STAYED = next(
    f"/words/{n}" for n in count() if place(b"%d" % n, 9) == place(b"%d" % n, 7) == PARTITION
)
assert place(b"a", 7) != place(b"a", 9)


def slowly(backend: Backend, seconds: float = WAIT_S) -> None:
    def answer(request: Request) -> Answer:
        time.sleep(seconds)
        return backend.answer(request)

    backend.behave = answer


@pytest.fixture(params=[{"mispartitioned": True}, {"partition_counts": [7, 9]}], ids=str)
def several(request: pytest.FixtureRequest, cluster: Cluster) -> dict[str, Any]:
    """What /processors says about the view."""
    found: dict[str, Any] = request.param
    cluster.views["words"] |= found
    return found


@pytest.fixture
def client(
    roles: Roles, several: dict[str, Any], cluster: Cluster, start_nginx: StartNginx
) -> Iterator[Client]:
    nginx = start_nginx(cluster.addresses(), 1, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    with nginx.client() as client:
        yield client


def left_out(client: Client) -> list[Any]:
    """Of the backends that failed."""
    backends = client.get("/proxy/health").json()["backends"]
    return [each["id"] for each in backends if each["left_out"]]


def test_a_backend_that_waits_for_others_does_not_look_hung(roles: Roles, client: Client) -> None:
    active, standby, _ = roles
    slowly(active)
    assert client.get(KEY).json() == {"by": active.name}
    assert standby.requests == []
    assert left_out(client) == []


def test_the_last_replica_may_wait_for_others(
    cluster: Cluster, roles: Roles, client: Client
) -> None:
    active, standby, other = roles
    active.stop()
    standby.stop()
    slowly(other)
    assert client.get(KEY).json() == {"by": other.name}
    assert other.name not in left_out(client)


def test_such_reads_are_not_coalesced(
    roles: Roles, several: dict[str, Any], client: Client
) -> None:
    """A backend would leave them out."""
    active = roles[0]
    for _ in range(3):
        assert client.get(KEY).json() == {"by": active.name}
    assert active.batches == []
    assert client.get(STAYED).json() == {"by": active.name}
    assert active.batches == ([] if several.get("mispartitioned") else [1])


def test_a_backend_that_hangs_is_left_soon_by_other_reads(
    roles: Roles, several: dict[str, Any], client: Client
) -> None:
    active, standby, _ = roles
    slowly(active, 1.5)
    began = time.monotonic()
    found = client.get(STAYED).json()
    if several.get("mispartitioned"):
        assert found == {"by": active.name}
    else:
        assert found == {"by": standby.name}
        assert time.monotonic() - began < 1.2


def test_the_longest_wait_of_backends_is_known(
    cluster: Cluster, roles: Roles, several: dict[str, Any], start_nginx: StartNginx
) -> None:
    cluster.more["forward_timeout"] = 3.0
    nginx = start_nginx(cluster.addresses(), 1, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    slowly(roles[0], 3.1)
    with nginx.client() as client:
        assert client.get(KEY).json() == {"by": roles[0].name}
        assert left_out(client) == []


@pytest.mark.parametrize("forward_timeout", [2.0, 3.0, 20.0])
def test_the_third_replica_is_asked_if_two_hang(
    cluster: Cluster, roles: Roles, start_nginx: StartNginx, forward_timeout: float
) -> None:
    """Regression: the two had used up the time in which nginx asks another one. With a
    forward_timeout of 5.5 s and more, the first one had."""
    active, standby, third = roles
    third.standby["words"].append(PARTITION)
    cluster.more["forward_timeout"] = forward_timeout
    nginx = start_nginx(cluster.addresses(), 1, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    is_over = threading.Event()

    def hang(_: Request) -> None:
        is_over.wait(30)

    active.behave = standby.behave = hang
    try:
        with nginx.client() as client:
            answer = client.get(f"{KEY}?min_offset={PARTITION}:1")
    finally:
        is_over.set()
    assert (answer.status, answer.json()) == (200, {"by": third.name})
    assert [len(each.requests) for each in roles] == [1, 1, 1]
    [entry] = nginx.access_log(1, "min_offset")
    assert entry["attempts"] == 3, "no fallback to another backend, which would ask the third"


def test_the_standby_is_asked_if_the_setting_for_others_is_long(
    roles: Roles, start_nginx: StartNginx, cluster: Cluster
) -> None:
    """The same with QUERYABLE_PROXY_READ_TIMEOUT, for a read that has the short time-out."""
    active, standby, _ = roles
    nginx = start_nginx(
        cluster.addresses(),
        1,
        QUERYABLE_PROXY_REFRESH="0.1",
        QUERYABLE_PROXY_READ_TIMEOUT="20",
        QUERYABLE_PROXY_BATCHES="0",
    )
    nginx.wait_for_map(EPOCH)
    is_over = threading.Event()

    def hang(_: Request) -> None:
        is_over.wait(30)

    active.behave = hang
    try:
        with nginx.client() as client:
            answer = client.get(KEY)
    finally:
        is_over.set()
    assert (answer.status, answer.json()) == (200, {"by": standby.name})
    [entry] = nginx.access_log(1, KEY)
    assert entry["attempts"] == 2
