"""nginx with one worker, and clients whose reads wait for a slow active."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Cluster
from tests.system.proxy.conftest import Roles, StartNginx
from tests.system.proxy.crowd import PATIENT, Crowd, Gate


@pytest.fixture(params=["string", "bytes"], autouse=True)
def key_format(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """The format of the view's keys. nginx writes the documents of keys that are text."""
    chosen: str = request.param
    cluster.views["words"]["key"] = chosen
    return chosen


@pytest.fixture
def start_worker(cluster: Cluster, start_nginx: StartNginx) -> Callable[..., Nginx]:
    """``start_worker(QUERYABLE_PROXY_BATCHES="2")`` starts nginx with one worker.

    It returns when the worker has the topology.
    """

    def start(**environment: str) -> Nginx:
        nginx = start_nginx(
            cluster.addresses(), 1, **{**PATIENT, "QUERYABLE_PROXY_REFRESH": "0.1", **environment}
        )
        nginx.wait_for_map(EPOCH)
        return nginx

    return start


@pytest.fixture
def nginx(start_worker: Callable[..., Nginx]) -> Nginx:
    return start_worker()


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
