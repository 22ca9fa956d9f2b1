"""What one worker of nginx reports of all: their topologies, and the configured backends."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack

from local.ports import LOOPBACK, free_ports
from local.waiting import wait_until
from tests.system.proxy.backends import EPOCH, Cluster
from tests.system.proxy.conftest import StartNginx


def test_each_worker_is_reported_also_one_that_hangs(
    cluster: Cluster, start_nginx: StartNginx
) -> None:
    nginx = start_nginx(cluster.addresses(), workers=2, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(EPOCH)
    hanging, running = sorted(nginx.workers())
    with nginx.client() as client:
        served = client.get("/proxy/health").json()
        # the connection is one of the worker that will run
        while served["pid"] != running:
            client.close()
            served = client.get("/proxy/health").json()
        os.kill(hanging, signal.SIGSTOP)
        try:
            cluster.epoch = "1000-2"

            def reported() -> dict[int, str]:
                workers = client.get("/proxy/health").json()["workers"]
                return {each["pid"]: each["epoch"] for each in workers}

            wait_until(lambda: reported()[running] == "1000-2", 10, "the new topology")
            assert reported() == {running: "1000-2", hanging: EPOCH}

            def age() -> float:
                [found] = [
                    each["age_s"]
                    for each in client.get("/proxy/health").json()["workers"]
                    if each["pid"] == hanging
                ]
                return float(found)

            wait_until(lambda: age() > 0.5, 10, "its topology to be old")
        finally:
            os.kill(hanging, signal.SIGCONT)
        nginx.wait_for_map("1000-2")


def test_a_worker_without_a_topology_is_reported(start_nginx: StartNginx) -> None:
    (port,) = free_ports(1)
    nginx = start_nginx(f"127.0.0.1:{port}", workers=1)
    [pid] = nginx.workers()
    report = nginx.health()
    assert report["workers"] == [{"pid": pid, "epoch": None, "age_s": None}]
    assert report["refresh_s"] == 1
    assert report["configured"] is None, "one backend is of one deployment"


def test_the_deployment_of_each_configured_backend_is_reported(start_nginx: StartNginx) -> None:
    one, other, old = Cluster(["b1", "b2"]), Cluster(["c1"]), Cluster(["d1"])
    one.more, other.more = {"application_id": "shop"}, {"application_id": "shop-2"}
    (silent,) = free_ports(1)
    try:
        addresses = [of.addresses() for of in (one, other, old)]
        nginx = start_nginx(",".join([*addresses, f"127.0.0.1:{silent}"]))
        wait_until(lambda: nginx.health()["configured"], 10, "the backends to be asked")
        found = nginx.health()["configured"]
        assert [each["application_id"] for each in found] == ["shop", "shop", "shop-2", None, None]
        assert ",".join(each["address"] for each in found[:4]) == ",".join(addresses)
        assert found[4]["error"] == "connect: connection refused"
    finally:
        for cluster in (one, other, old):
            cluster.stop()


class Silent:
    """A server that accepts connections and sends nothing."""

    def __init__(self) -> None:
        self.connections: list[tuple[float, float]] = []  # begin and end (s) of those that are over
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address = f"{LOOPBACK}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._hold, args=(connection,), daemon=True).start()

    def _hold(self, connection: socket.socket) -> None:
        began = time.monotonic()
        with connection:
            try:
                while connection.recv(4096):
                    pass
            except OSError:
                pass  # nginx has ended
        self.connections.append((began, time.monotonic()))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def test_configured_backends_that_are_silent_are_asked_one_after_the_other(
    start_nginx: StartNginx,
) -> None:
    """Asking all takes longer than the interval at which that is due. What looks for a topology
    also asks those that have failed, one at a time: so two may be asked at the same time."""
    answers = Cluster(["b1"])
    with ExitStack() as running:
        running.callback(answers.stop)
        silent = [Silent() for _ in range(4)]
        for each in silent:
            running.callback(each.close)
        addresses = [answers.addresses(), *(each.address for each in silent)]
        nginx = start_nginx(",".join(addresses), workers=2)
        nginx.wait_for_map(EPOCH)
        wait_until(lambda: nginx.health()["configured"], 20, "the first round of requests")
        for each in silent:
            each.connections.clear()  # until now, nginx has looked for a topology, too
        wait_until(
            lambda: all(len(each.connections) >= 2 for each in silent), 40, "two rounds of requests"
        )
        found = sorted(one for each in silent for one in each.connections)
        others = [
            sum(began < at < ended - 0.3 for began, ended in found) for at, _ in found
        ]  # others that were still asked when the request at this time began
        assert max(others) <= 1
        errors = [each["error"] for each in nginx.health()["configured"][1:]]
        assert errors == ["read: timeout"] * 4
