"""`spark-submit` to a standalone cluster: a master and a worker from pyspark's own classes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from local.errors import tail
from local.kafka.broker import Broker
from local.kafka.jars import spark_jars
from local.ports import LOOPBACK, free_ports
from local.processes import end, spawn
from local.settings import REPOSITORY
from local.waiting import wait_until
from spark.session import ARCHIVE, ON_FEW_CORES
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.examples import flight
from tests.support.topics import Writer, history

BIN = Path(pyspark.__path__[0]) / "bin"
DEPLOY = "org.apache.spark.deploy"
CORES = 3
JAVA_OPTIONS = f"{ON_FEW_CORES} -Xlog:disable -XX:SharedArchiveFile={ARCHIVE}"
VIEW = """
from dataclasses import replace
from spark.views import VIEWS

VIEW = replace(VIEWS["latest-departure"], name="flights-here", source="{source}", topic="{topic}")
"""


def environment(**more: str) -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    here = {"PYTHONPATH": str(REPOSITORY), "PYSPARK_PYTHON": sys.executable}
    # Web pages and executors listen on this address, too.
    return {**found, **here, "SPARK_LOCAL_IP": LOOPBACK, **more}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with one worker."""
    folder = tmp_path_factory.mktemp("standalone")
    port, page, worker_port, worker_page = free_ports(4)
    url = f"spark://{LOOPBACK}:{port}"
    options = f"{JAVA_OPTIONS} -Dspark.master.rest.enabled=false"
    daemons = environment(SPARK_DAEMON_MEMORY="256m", SPARK_DAEMON_JAVA_OPTS=options)
    started: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(name: str, *arguments: str) -> None:
        log = folder / f"{name}.log"
        command = [str(BIN / "spark-class"), f"{DEPLOY}.{name}", "--host", LOOPBACK, *arguments]
        started.append((spawn(command, log, env=daemons, cwd=folder), log))

    def workers() -> int:
        for process, log in started:
            assert process.poll() is None, tail(log.read_text(), 30)
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{page}/json/", timeout=5) as answer:
                state: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):  # the page of an address comes before its JSON
            return 0
        return int(state["aliveworkers"])

    try:
        start("master.Master", "--port", str(port), "--webui-port", str(page))
        start(
            "worker.Worker",
            *("--port", str(worker_port), "--webui-port", str(worker_page)),
            *("--cores", str(CORES), "--memory", "1g", "--work-dir", str(folder / "work"), url),
        )
        wait_until(workers, 60, "the worker to register", 0.2)
        yield url
    finally:
        for process, _ in reversed(started):
            end(process, 10)


def submit(cluster: str, folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit status and the output of a job."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    conf = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    }
    command = [
        *(str(BIN / "spark-submit"), "--master", cluster),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        *("--driver-java-options", f"{JAVA_OPTIONS} -Djava.io.tmpdir={temporary}"),
        *("--jars", ",".join(str(jar) for jar in spark_jars())),
        *(str(REPOSITORY / "spark" / "run.py"), *arguments),
        *("--checkpoint-dir", str(folder / "checkpoints")),
    ]
    log = folder / "submit.log"
    process = spawn(command, log, env=environment(), cwd=folder)
    try:
        status = process.wait(200)
    finally:
        end(process, 10)
    # The Java process has deleted its temporary files.
    assert list(temporary.iterdir()) == []
    return status, log.read_text()


def test_a_view_on_a_standalone_cluster(
    cluster: str, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(2), make_topic(3, cleanup_policy="compact")
    records = [flight(), flight(minute=20), flight(tailnum="N2"), (b"x", b"{")]
    Writer(broker.bootstrap_servers).send(source, records)
    view = tmp_path / "flights_here.py"
    view.write_text(VIEW.format(source=source, topic=topic))
    arguments = ("--view", str(view), "--bootstrap-servers", broker.bootstrap_servers, "--once")
    status, output = submit(cluster, tmp_path, *arguments)
    assert status == 0, tail(output, 30)
    table = {
        key.decode(): json.loads(value or b"null")
        for log in history(broker.bootstrap_servers, topic, 3)
        for _, _, key, value in log.records
    }
    assert table.keys() == {"N14228", "N2"}
    assert table["N14228"]["time"] > table["N2"]["time"]
    [sizes] = [line for line in output.splitlines() if line.startswith("Spark: ")]
    assert sizes == (
        f"Spark: {cluster} (given), 1 executor, 3 cores, heap of the driver 1 GB, heap of an "
        "executor 1 GB, 3 shuffle partitions for the state of new checkpoints"
    )
    checkpoint = json.loads((tmp_path / "checkpoints" / "flights-here" / "view.json").read_text())
    assert checkpoint["state_partitions"] == CORES


def test_a_job_that_fails_has_its_own_status(cluster: str, tmp_path: Path) -> None:
    status, output = submit(cluster, tmp_path, "no-such-view")
    assert status == 2, tail(output, 30)
    assert "no view no-such-view" in output
