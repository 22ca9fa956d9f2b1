"""With many backends, coalescing is limited per worker, and the topology is still refreshed."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Backend, Cluster, Request
from tests.system.proxy.conftest import PARTITION, StartNginx
from tests.system.proxy.crowd import LINE, Crowd, Gate, metric, reads

MANY = 40


@pytest.fixture
def many() -> Iterator[Cluster]:
    """As many backends as partitions: each owns one."""
    cluster = Cluster([f"b{number}" for number in range(MANY)])
    cluster.views["words"]["partitions"] = MANY
    cluster.assign()
    yield cluster
    cluster.stop()


def start(many: Cluster, start_nginx: StartNginx, batches: int) -> Nginx:
    nginx = start_nginx(
        many.addresses(),
        1,
        QUERYABLE_PROXY_REFRESH="0.1",
        QUERYABLE_PROXY_BATCHES=str(batches),
        QUERYABLE_PROXY_READ_TIMEOUT="10",
    )
    nginx.wait_for_map(EPOCH)
    return nginx


def keys(many: Cluster, nginx: Nginx) -> dict[str, str]:
    """By backend, the path of a key that it owns. Sends at least one read to each backend."""
    found: dict[str, str] = {}
    with nginx.client() as client:
        for number in range(10_000):
            if len(found) == len(many.backends):
                return found
            response = client.get(f"/words/k{number}")
            assert response.status == 200
            found.setdefault(response.json()["by"], f"/words/k{number}")
    raise AssertionError("a backend owns none of these keys")


def coalesce_reads(nginx: Nginx, backend: Backend, path: str) -> None:
    """Three reads that wait for the backend during the call of a fourth."""
    gate = Gate(backend)
    before = len(backend.requests)
    try:
        with Crowd(nginx) as crowd:
            crowd.send(f"GET {path} HTTP/1.1")
            wait_until(lambda: len(backend.requests) == before + 1, 10, "the first read")
            crowd.send(*[f"GET {path} HTTP/1.1"] * 3)
            wait_until(
                lambda: reads(nginx, backend)["waiting"] == 3 or len(backend.requests) > before + 1,
                10,
                "the others to wait, or to be sent",
            )
            gate.open()
            assert [answer.json() for answer in crowd.answers()] == [{"by": backend.name}] * 4
    finally:
        gate.open()


@pytest.mark.parametrize("batches", [1, 16])
def test_the_topology_is_refreshed_with_many_backends(
    many: Cluster, start_nginx: StartNginx, batches: int
) -> None:
    nginx = start(many, start_nginx, batches)
    keys(many, nginx)
    # without requests, no response announces this epoch
    many.epoch = "1000-2"
    nginx.wait_for_map("1000-2")
    assert "lua_max_running_timers" not in nginx.error_log()


def test_reads_for_each_of_many_backends_are_coalesced(
    many: Cluster, start_nginx: StartNginx
) -> None:
    nginx = start(many, start_nginx, 1)
    for backend in many.backends:
        backend.requests.clear()
    paths = keys(many, nginx)
    for backend in (many.backends[0], many.backends[MANY // 2], many.backends[-1]):
        coalesce_reads(nginx, backend, paths[backend.name])
        assert backend.batches[-2:] == [1, 3]
    assert metric(nginx, "batches_no_call_total") == 0


def test_reads_for_backends_above_the_limit_are_sent_by_themselves_and_counted(
    many: Cluster, start_nginx: StartNginx
) -> None:
    nginx = start(many, start_nginx, 16)
    paths = keys(many, nginx)
    report = {backend["id"]: backend["reads"] for backend in nginx.health()["backends"]}
    without = [name for name, queue in report.items() if queue is None]
    # 16 calls each, 512 in all
    assert len(without) == MANY - 512 // 16
    counted = metric(nginx, "batches_no_call_total")
    assert counted >= len(without)
    for name in without[:2]:
        [backend] = [b for b in many.backends if b.name == name]
        coalesce_reads(nginx, backend, paths[name])
        assert backend.batches == []
    assert metric(nginx, "batches_no_call_total") == counted + 8
    [backend] = [b for b in many.backends if b.name not in without][:1]
    before = sum(backend.batches)
    coalesce_reads(nginx, backend, paths[backend.name])
    assert sum(backend.batches) == before + 4  # up to 16 calls at once: not all need be in one
    assert "no timer started" not in nginx.error_log()


def test_if_nginx_drops_timers_reads_are_answered_and_the_topology_is_refreshed(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Only one timer may run: none starts while the topology is being read."""
    released = threading.Event()

    def hang(request: Request) -> None:
        released.wait(30)

    with Nginx(
        tmp_path / "prefix",
        cluster.addresses(),
        {"QUERYABLE_PROXY_REFRESH": "0.1", "QUERYABLE_PROXY_READ_TIMEOUT": "10"},
        workers=1,
        changes={"lua_max_running_timers 518;": "lua_max_running_timers 1;"},
    ) as nginx:
        nginx.wait_for_map(EPOCH)
        for backend in cluster.backends:
            backend.behave_topology = hang
        wait_until(lambda: nginx.health().get("failures"), 10, "a topology that does not arrive")
        backend = cluster.owner("words", PARTITION)
        gate = Gate(backend)
        with Crowd(nginx) as crowd:
            crowd.send(LINE)
            wait_until(lambda: len(backend.requests) == 1, 10, "the first read")
            # each read is sent by itself if the queue's timer does not start in time
            deadline = time.monotonic() + 1
            wait_until(lambda: time.monotonic() > deadline, 2, "the timer to be late")
            crowd.send(*[LINE] * 3)
            wait_until(
                lambda: "no timer started" in nginx.error_log(),
                10,
                "the dropped timer to be noticed",
            )
            gate.open()
            assert [answer.json() for answer in crowd.answers()] == [{"by": backend.name}] * 4
        assert "lua_max_running_timers are not enough" in nginx.error_log()
        cluster.epoch = "1000-2"
        released.set()
        for backend in cluster.backends:
            backend.behave_topology = backend.processors
        nginx.wait_for_map("1000-2")


def test_nginx_allows_all_timers_of_a_worker() -> None:
    def number(path: str, pattern: str) -> int:
        [found] = re.findall(pattern, (REPOSITORY / path).read_text(), re.MULTILINE)
        return int(found)

    max_calls = number("proxy/reads/coalescer.lua", r"^_M\.MAX_CALLS = (\d+)$")
    max_timers = sum(
        number(f"proxy/{module}.lua", r"^_M\.MAX_TIMERS = (\d+)$")
        for module in ("discovery", "metrics", "admin/deployments", "reads/coalescer")
    )
    running = number("nginx.conf", r"^ +lua_max_running_timers (\d+);$")
    pending = number("nginx.conf", r"^ +lua_max_pending_timers (\d+);$")
    assert running >= max_calls + max_timers
    assert pending >= running
