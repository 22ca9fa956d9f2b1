"""Name servers that do not answer, or one of two that does not, or many names: nginx knows the
addresses, so reads do not wait for look-ups, which block a worker."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.nginx import Nginx
from tests.system.proxy.backends import EPOCH, Cluster

TAKES_MS = 500
MANY, TAKES_EACH_MS = 60, 45
SHORT_TTL = 'require("proxy.resolver").TTL_S = 0.3'


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "names.so"
    source = Path(__file__).with_name("names.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path


def waits(nginx: Nginx, seconds: float, least: float = 0.2) -> list[float]:
    """The times (s) for which reads have waited, each for more than `least`, in so many seconds."""
    long, began = [], time.monotonic()
    while (at := time.monotonic()) < began + seconds:
        with nginx.client() as client:
            assert client.get("/words/a").status == 200
        if (took := time.monotonic() - at) > least:
            long.append(took)
        time.sleep(0.005)
    return long


def waited(nginx: Nginx, seconds: float, least: float = 0.2) -> float:
    return sum(waits(nginx, seconds, least))


@pytest.fixture
def names(tmp_path: Path) -> Path:
    """The file that says how long look-ups take, and whether they fail."""
    file = tmp_path / "names"
    file.write_bytes(struct.pack("ll", 0, 0))
    return file


def look_ups_take(names: Path, ms: int, fails: bool = False) -> None:
    with names.open("r+b") as changed:
        changed.write(struct.pack("ll", ms, fails))


@pytest.fixture
def start(cluster: Cluster, library: Path, names: Path, tmp_path: Path) -> Callable[[], Nginx]:
    """Starts nginx, with a name for each backend. One worker."""

    def started() -> Nginx:
        for backend in cluster.backends:
            backend.host = f"{backend.name}.test"
        environment = {
            "QUERYABLE_PROXY_REFRESH": "0.1",
            "LD_PRELOAD": str(library),
            "NAMES_FILE": str(names),
        }
        changes = {'require "resty.core"': f'require "resty.core"\n        {SHORT_TTL}'}
        return Nginx(tmp_path / "prefix", cluster.addresses(), environment, 1, changes)

    return started


@pytest.mark.parametrize("fails", [True, False])
def test_reads_do_not_wait_for_look_ups(
    cluster: Cluster, start: Callable[[], Nginx], names: Path, fails: bool
) -> None:
    with start() as nginx:
        nginx.wait_for_map(EPOCH)
        assert waited(nginx, 1) < 1
        look_ups_take(names, TAKES_MS, fails)
        assert waited(nginx, 8) < 2
        # new workers know the addresses, too, and new topologies are used
        nginx.reload()
        assert waited(nginx, 4) < 2
        cluster.epoch = "1000-2"
        nginx.wait_for_map("1000-2")
        assert waited(nginx, 1) < 1


def test_reads_do_not_wait_for_many_look_ups(
    cluster: Cluster, start: Callable[[], Nginx], names: Path
) -> None:
    """Each is fast, but together they take seconds."""
    port = cluster.backends[0].port
    others: list[dict[str, object]] = []
    document = cluster.topology

    def with_others() -> dict[str, object]:
        found = document()
        found["processors"] += others
        return found

    cluster.topology = with_others  # type: ignore[method-assign]
    with start() as nginx:
        nginx.wait_for_map(EPOCH)
        look_ups_take(names, TAKES_EACH_MS)
        others += [
            {"id": f"x{number}", "host": f"x{number}.test", "port": port, "state": "running"}
            for number in range(MANY)
        ]
        cluster.epoch = "1000-2"
        # all are new: requests are answered between the look-ups
        assert max(waits(nginx, 5, 0), default=0) < 1
        assert nginx.epochs() == ["1000-2"]
        # known ones are looked up again, for a small part of the time
        assert waited(nginx, 8, 0.04) < 3
