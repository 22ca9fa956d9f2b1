"""Which backends nginx asks for the topology: configured ones, and those that it has learned of."""

from __future__ import annotations

from local.ports import free_ports
from local.waiting import wait_until
from tests.support.backends import wake_ups
from tests.system.proxy.backends import EPOCH, Answer, Backend, Cluster
from tests.system.proxy.conftest import StartNginx


def test_many_configured_backends_that_are_gone(cluster: Cluster, start_nginx: StartNginx) -> None:
    """The machines were replaced one after the other. No answer to a client tells of an epoch."""
    gone = ",".join(f"127.0.0.1:{port}" for port in free_ports(4))
    nginx = start_nginx(f"{cluster.addresses()},{gone}", QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    cluster.backends += [Backend(cluster, name) for name in ("b4", "b5")]
    cluster.assign()
    cluster.epoch = "1000-2"
    nginx.wait_for_map("1000-2")
    for configured in cluster.backends[:3]:
        configured.stop()
    del cluster.backends[:3]
    cluster.assign()
    cluster.epoch = "1000-3"
    nginx.wait_for_map("1000-3")


def test_a_single_worker_is_woken_only_to_read_the_topology(
    cluster: Cluster, start_nginx: StartNginx
) -> None:
    """Regression: it looked ten times a second whether another one has read it."""
    nginx = start_nginx(cluster.addresses(), workers=1)
    nginx.wait_for_map(EPOCH)
    (worker,) = nginx.workers()

    def reads() -> int:
        return sum(len(backend.topology_requests) for backend in cluster.backends)

    before, began = wake_ups(worker), reads()
    wait_until(lambda: reads() >= began + 5, 20, "five refreshes", 0.05)
    assert wake_ups(worker) - before < 6 * (reads() - began)


def test_a_failure_is_reported_while_it_lasts(cluster: Cluster, start_nginx: StartNginx) -> None:
    """Regression: a backend that was starting when it was asked was reported for as long as another
    one answered."""
    starting, closing = cluster.backends[1:]
    (gone,) = free_ports(1)
    for backend in cluster.backends:
        backend.behave_topology = lambda request: Answer(503)
    nginx = start_nginx(f"{cluster.addresses()},127.0.0.1:{gone}", QUERYABLE_PROXY_REFRESH="0.1")

    def failures() -> dict[str, str]:
        return nginx.health().get("failures", {})

    names = [f"127.0.0.1:{backend.port}" for backend in cluster.backends]
    refused = {f"127.0.0.1:{gone}": "connect: connection refused"}
    wait_until(lambda: failures() == {**dict.fromkeys(names, "status 503"), **refused}, 10, "503")
    cluster.backends[0].behave_topology = cluster.backends[0].processors
    nginx.wait_for_map(EPOCH)
    closing.behave_topology = lambda request: None
    starting.behave_topology = starting.processors
    closed = {names[2]: "read: closed"}
    wait_until(lambda: failures() == {**closed, **refused}, 10, "what is true now")
    closing.behave_topology = closing.processors
    wait_until(lambda: failures() == refused, 10, "that all answer")
