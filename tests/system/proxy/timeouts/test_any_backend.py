"""Reads of keys whose partition nginx does not compute: any backend gets them, and one that hangs
is passed over as soon as for other keys that may have to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.support.nginx import Nginx
from tests.system.proxy.backends import Answer, Cluster, Request
from tests.system.proxy.conftest import EPOCH, StartNginx

UNROUTED = "/any/a"


@pytest.fixture
def nginx(cluster: Cluster, start_nginx: StartNginx) -> Nginx:
    nginx = start_nginx(cluster.addresses(), 1, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    return nginx


@pytest.fixture
def hung(cluster: Cluster) -> Iterator[str]:
    """The name of a backend that does not answer."""
    released = threading.Event()
    backend = cluster.backends[1]

    def hang(request: Request) -> Answer:
        released.wait(60)
        return backend.answer(request)

    backend.behave = hang
    yield backend.name
    released.set()


def read(client: Client, target: str = UNROUTED) -> tuple[object, float]:
    """Who answers, and after how many seconds."""
    began = time.monotonic()
    response = client.get(target)
    return response.json().get("by"), time.monotonic() - began


def test_a_backend_that_hangs_is_passed_over(nginx: Nginx, hung: str) -> None:
    with nginx.client() as client:
        answers = [read(client) for _ in range(12)]
    assert {name for name, _ in answers} == {"b1", "b3"}
    slow = [took for _, took in answers if took > 1]
    # 2.5 s, once: then it is tried last
    assert len(slow) == 1, answers
    assert slow[0] < 5


def test_a_backend_that_asks_others_has_time(cluster: Cluster, nginx: Nginx) -> None:
    def slowly(request: Request) -> Answer:
        time.sleep(2.1)
        return Answer(body=b'{"by": "slow"}')

    for backend in cluster.backends:
        backend.behave = slowly
    with nginx.client() as client:
        name, took = read(client)
        assert name == "slow"
        assert took < 3
        assert not any(each["left_out"] for each in nginx.health()["backends"])
