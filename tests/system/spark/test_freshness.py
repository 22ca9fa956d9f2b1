"""Readers, metrics and the health check show a dead or lagging job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.processes import end
from local.waiting import stretch, wait_until
from spark.kafka_admin import TopicPartition
from spark.views import VIEWS
from tests.support.backends import Backend
from tests.support.browser import AdminPage, chromium
from tests.support.deployment import Deployment, views_toml
from tests.support.topics import Writer
from tests.system.spark.test_run import ROOT, Job

VIEW = VIEWS["word-count"]
FIRST, SECOND = (TopicPartition(VIEW.source, number) for number in range(2))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker for this module, because the views' topics have fixed names."""
    with Broker(tmp_path_factory.mktemp("freshness")) as broker:
        compact = {"cleanup.policy": "compact"}
        topics = [Topic(VIEW.source, 2, {}), Topic(VIEW.topic, 1, compact)]
        create_topics(quiet_admin(broker.bootstrap_servers), topics)
        yield broker.bootstrap_servers


@pytest.fixture
def job(servers: str, tmp_path: Path) -> Iterator[Job]:
    made = Job(servers, tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def backend(servers: str, tmp_path: Path) -> Iterator[Backend]:
    views = views_toml(
        words={
            "topic": VIEW.topic,
            "path": "/words",
            "value": "int64",
            "pipeline": "queryable-spark-word-count",
        }
    )
    with Deployment(tmp_path / "backends", servers, views) as deployment:
        yield deployment.start(1)[0]


def healthy(file: Path) -> bool:
    """The result of the container's health check."""
    command = [sys.executable, "-m", "spark.health", str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_a_job_that_is_killed_or_stopped_shows_within_seconds(
    servers: str, job: Job, backend: Backend, tmp_path: Path
) -> None:
    health = tmp_path / "health.json"
    options = ("word-count", "--trigger", "0 seconds", "--health", str(health))
    writer = Writer(servers)
    writer.send(VIEW.source, [(b"t", b"one two two")] * 3)

    def pipeline() -> tuple[str | None, str | None]:
        headers = backend.get("/words/two").headers
        return headers.get("Pipeline-Lag"), headers.get("Pipeline-State")

    def staleness() -> str:
        return backend.get("/words/two").headers["Pipeline-Staleness"]

    def shows(expected: tuple[str, str], timeout: float) -> float:
        began = time.monotonic()
        backend.wait(lambda: pipeline() == expected, f"{expected}, not {pipeline()}", timeout)
        return time.monotonic() - began

    assert not healthy(health)
    job.start(*options)
    shows(("0", "running"), 90)
    # it is not known before the job has looked for keys in several partitions of the source
    backend.wait(lambda: staleness() != "unknown", "the staleness", 60)
    assert healthy(health)

    # no record arrives, so only the heartbeat shows it
    with chromium(tmp_path / "chromium") as driver:
        page = AdminPage(driver, backend.port)
        page.wait(lambda: page.totals().get("Pipelines running") == "1 of 1", "the job")
        page.wait(lambda: "pipeline-stopped" not in page.attention(), "that it runs")
        job.kill()
        assert shows(("0", "stopped"), 20) < 9 * stretch()  # 5 s, and more for a late poll
        page.wait(lambda: "pipeline-stopped" in page.attention(), "that it has stopped")
        assert page.totals()["Pipelines running"] == "0 of 1"
    assert backend.get("/views/words").json()["pipeline"]["state"] == "stopped"
    assert "queryable_pipeline_running{" in backend.get("/metrics").body.decode()
    writer.send(VIEW.source, [(b"t", b"two")] * 4)
    assert shows(("4", "stopped"), 20) < 9 * stretch()
    wait_until(lambda: not healthy(health), 30, "the health check to fail")

    # a backend that starts while the job is dead knows the lag, in records and seconds
    backend.stop()
    backend.start()
    shows(("4", "stopped"), 20)
    assert 1_000 < int(staleness()) < 300_000

    job.start(*options)
    wait_until(lambda: not health.exists(), 60, "the file of the killed job to be deleted")
    shows(("0", "running"), 90)
    assert job.process is not None
    os.kill(job.process.pid, signal.SIGTERM)
    assert job.wait_end() == 0
    assert shows(("0", "stopped"), 20) < 9 * stretch()
    assert end(job.process, 1) == 0
