"""Windows, sessions and versions of a key: a backend that hangs is passed over. Its changes are a
stream, which may be silent for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.client import Client
from tests.system.proxy.backends import EPOCH, Answer, Cluster, Request
from tests.system.proxy.conftest import KEY, Roles, StartNginx


@pytest.fixture
def client(roles: Roles, cluster: Cluster, start_nginx: StartNginx) -> Iterator[Client]:
    nginx = start_nginx(cluster.addresses(), 1, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    with nginx.client() as client:
        yield client


@pytest.mark.parametrize("history", ["/windows", "/sessions?from=0", "/versions"])
def test_a_backend_that_hangs_is_passed_over(roles: Roles, client: Client, history: str) -> None:
    active, standby, _ = roles
    released = threading.Event()

    def hang(request: Request) -> Answer:
        released.wait(60)
        return active.answer(request)

    active.behave = hang
    try:
        began = time.monotonic()
        assert client.get(KEY + history).json() == {"by": standby.name}
        assert time.monotonic() - began < 5
        # now it is known
        began = time.monotonic()
        assert client.get(KEY + history).json() == {"by": standby.name}
        assert time.monotonic() - began < 1
    finally:
        released.set()


@pytest.mark.parametrize(("rest", "seconds"), [("/windows", 2.1), ("/changes", 3)])
def test_a_backend_that_waits_is_not(
    roles: Roles, client: Client, rest: str, seconds: float
) -> None:
    active, *_ = roles

    def slowly(request: Request) -> Answer:
        time.sleep(seconds)
        return active.answer(request)

    active.behave = slowly
    assert client.get(KEY + rest).json() == {"by": active.name}
