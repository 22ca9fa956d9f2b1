"""Fake backends behind a real nginx."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Backend, Cluster

StartNginx = Callable[..., Nginx]
Roles = tuple[Backend, Backend, Backend]
"""A key's active, its standby, and another backend."""

KEY = "/words/a"
PARTITION = 4  # of nine, by murmur2


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three backends, no standbys."""
    cluster = Cluster(["b1", "b2", "b3"])
    yield cluster
    cluster.stop()


@pytest.fixture
def start_nginx(tmp_path: Path) -> Iterator[StartNginx]:
    """``start_nginx(backends, QUERYABLE_PROXY_REFRESH="60")``."""
    with ExitStack() as running:

        def start(backends: str, workers: int | None = None, **environment: str) -> Nginx:
            nginx = Nginx(tmp_path / "prefix", backends, environment, workers)
            running.callback(nginx.stop)
            return nginx

        yield start


@pytest.fixture
def nginx(cluster: Cluster, start_nginx: StartNginx) -> Nginx:
    """nginx in front of the cluster. Its workers have the topology, and read it every 0.1 s."""
    nginx = start_nginx(cluster.addresses(), QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    return nginx


@pytest.fixture
def roles(cluster: Cluster) -> Roles:
    """The key's active, its standby, and the backend that is neither."""
    cluster.with_standbys()
    active = cluster.owner("words", PARTITION)
    (standby,) = [b for b in cluster.backends if PARTITION in b.standby["words"]]
    (other,) = [b for b in cluster.backends if b not in (active, standby)]
    return active, standby, other
