"""The functions of views run as clients of Spark Connect, in a process without a JVM."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import DataFrame

from local.errors import tail
from local.ports import LOOPBACK, free_ports
from local.processes import end, spawn
from local.settings import REPOSITORY
from local.waiting import wait_until
from spark.session import ON_FEW_CORES
from spark.views import VIEWS
from tests.spark.connect_views import in_hex
from tests.support.spark.examples import flight, request

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SUBMIT = Path(pyspark.__path__[0]) / "bin" / "spark-submit"

Pair = tuple[bytes | None, bytes | None]

# One of each kind: a join, a window, and one without Python. Their rows are compared; the server
# analyses the plans of all views, which fails if a function needs a JVM of its own.
COMPARED = ("aircraft", "requests-per-minute", "word-count")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server of Spark Connect, from pyspark's jars."""
    [port] = free_ports(1)
    conf = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.extraJavaOptions": ON_FEW_CORES,
        "spark.driver.host": LOOPBACK,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
    environment.pop("SPARK_HOME", None)
    log = tmp_path / "server.log"
    process = spawn(
        [str(SUBMIT), "--master", "local[1]", *options, "--class", SERVER, "spark-internal"],
        log, env=environment, cwd=tmp_path,
    )  # fmt: skip

    def listens() -> bool:
        assert process.poll() is None, tail(log.read_text(), 30)
        with socket.socket() as client:
            return client.connect_ex((LOOPBACK, port)) == 0

    try:
        wait_until(listens, 90, "the server of Spark Connect", 0.2)
        yield f"sc://{LOOPBACK}:{port}"
    finally:
        end(process, 20)


def pairs(name: str) -> list[list[Pair]]:
    """Records for each source of a view."""
    lines = [request(1, "10:00:00"), request(2, "10:00:59"), request(2, "10:00:59")]
    of_topic: dict[str, list[Pair]] = {
        "flights": [flight(), flight(tailnum="N2", dest="BQN"), flight(minute=20), (b"x", b"{")],
        "texts": [(b"t", b"one two two"), (b"t", b"\xff")],
        "weblog": [*lines, request(3, "09:45:00", client="::1")],
        "planes": [(b"N2", b'{"tailnum": "N2", "model": "737"}')],
        "airlines": [(b"UA", b'{"carrier": "UA", "name": "United"}')],
        "us-airports": [(b"IAH", b'{"faa": "IAH", "name": "Houston"}')],
    }
    return [of_topic[source.topic] for source in VIEWS[name].inputs]


def test_views_derive_the_same_under_spark_connect(
    server: str, records: Callable[..., DataFrame]
) -> None:
    given = {
        name: [[[key and key.hex(), value and value.hex()] for key, value in source]
               for source in pairs(name)]
        for name in COMPARED
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.spark.connect_views", server],
        cwd=REPOSITORY, input=json.dumps(given), capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    for name in COMPARED:
        view = VIEWS[name]
        rows = view.result(*(records(*source) for source in pairs(name))).collect()
        wanted = [in_hex(row.asDict()) for row in rows]
        assert wanted, name
        assert sorted(found[name], key=str) == sorted(wanted, key=str), name
