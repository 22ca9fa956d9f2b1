"""Name servers that do not answer, or one of two that does not: nginx knows the addresses, so reads
do not wait for look-ups, which block a worker."""

from __future__ import annotations

import struct
import subprocess
import time
from pathlib import Path

import pytest

from tests.proxy.backends import EPOCH, Cluster
from tests.support.nginx import Nginx

pytestmark = pytest.mark.system

TAKES_MS = 500
SHORT_TTL = 'require("proxy.resolver").TTL_S = 0.3'


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "names.so"
    source = Path(__file__).with_name("names.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path


def waited(nginx: Nginx, seconds: float) -> float:
    """The time (s) for which reads have waited for more than 0.2 s each, in so many seconds."""
    long, began = 0.0, time.monotonic()
    while (at := time.monotonic()) < began + seconds:
        with nginx.client() as client:
            assert client.get("/words/a").status == 200
        if (took := time.monotonic() - at) > 0.2:
            long += took
        time.sleep(0.005)
    return long


@pytest.mark.parametrize("fails", [True, False])
def test_reads_do_not_wait_for_look_ups(
    cluster: Cluster, library: Path, tmp_path: Path, fails: bool
) -> None:
    file = tmp_path / "names"
    file.write_bytes(struct.pack("ll", 0, 0))
    for backend in cluster.backends:
        backend.host = f"{backend.name}.test"
    environment = {
        "QUERYABLE_PROXY_REFRESH": "0.1",
        "LD_PRELOAD": str(library),
        "NAMES_FILE": str(file),
    }
    with Nginx(
        tmp_path / "prefix",
        cluster.addresses(),
        environment,
        1,
        changes={'require "resty.core"': f'require "resty.core"\n        {SHORT_TTL}'},
    ) as nginx:
        nginx.wait_for_map(EPOCH)
        assert waited(nginx, 1) < 1
        with file.open("r+b") as changed:
            changed.write(struct.pack("ll", TAKES_MS, fails))
        assert waited(nginx, 8) < 2
        # new workers know the addresses, too, and new topologies are used
        nginx.reload()
        assert waited(nginx, 4) < 2
        cluster.epoch = "1000-2"
        nginx.wait_for_map("1000-2")
        assert waited(nginx, 1) < 1
