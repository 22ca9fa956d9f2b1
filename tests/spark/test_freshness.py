"""A dead or late job shows: to readers, in metrics, and in its own health check."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from local.broker import Broker, quiet_admin
from local.processes import end
from local.topics import Topic, create_topics
from local.waiting import wait_until
from spark.health import problem
from spark.heartbeats import Commit, Heartbeats, Unit
from spark.progress import RUNNING, STARTING, Account, Dropped, Event, ProgressFile
from spark.views import VIEWS
from tests.spark.test_run import ROOT, Job
from tests.support.backends import Backend
from tests.support.deployment import Deployment, views_toml
from tests.support.topics import Writer

VIEW = VIEWS["word-count"]
FIRST = Unit(VIEW.source, 0)


class Groups:
    """Consumer groups of a broker that may be away."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[Unit, tuple[int, str]]] = {}
        self.away = False

    def committed(self, group: str) -> dict[Unit, int]:
        return {unit: offset for unit, (offset, _) in self.offsets.get(group, {}).items()}

    def commit(self, commits: dict[str, Commit]) -> None:
        if self.away:
            raise OSError("TimeoutException: no answer")
        for group, commit in commits.items():
            self.offsets.setdefault(group, {}).update(commit)


class Beating:
    """Heartbeats of one view, beaten by hand."""

    def __init__(self, health: Path | None = None) -> None:
        self.groups = Groups()
        self.account = Account(STARTING, {}, None, None)
        self.said: list[str] = []
        self.heartbeats = Heartbeats(
            self.groups,  # type: ignore[arg-type]
            [VIEW],
            "job-",
            lambda: {VIEW.name: self.account},
            health,
            self.said.append,
        )

    def beat(self) -> tuple[dict[Unit, int], dict[str, Any]]:
        """The group's offsets, and its heartbeat."""
        self.heartbeats.beat()
        group = f"job-{VIEW.name}"
        told: dict[str, Any] = json.loads(self.groups.offsets[group][FIRST][1])
        return self.groups.committed(group), told


def test_what_was_read_is_committed_with_a_heartbeat() -> None:
    beating = Beating()
    offsets, told = beating.beat()
    assert (offsets, told["state"]) == ({FIRST: 0}, "starting")
    beating.account = Account(RUNNING, {VIEW.source: {"0": 7, "1": 5}}, None, 0.5, 1_700_000_000.5)
    offsets, first = beating.beat()
    assert first["caught_up_at"] == 1_700_000_000_500
    assert (offsets, first["state"]) == ({FIRST: 7, Unit(VIEW.source, 1): 5}, "running")
    time.sleep(0.002)
    assert beating.beat()[1]["at"] > first["at"], "also where there is nothing to do"
    beating.account = beating.account._replace(state="failed", error="x" * 9_000)
    told = beating.beat()[1]
    assert told["state"] == "failed"
    assert len(told["error"]) <= 300


def test_a_job_that_starts_again_keeps_its_place_until_it_knows_better() -> None:
    beating = Beating()
    beating.groups.offsets["job-word-count"] = {FIRST: (9, "")}
    offsets, told = beating.beat()
    assert (offsets, told["state"]) == ({FIRST: 9}, "starting")


def test_the_end_is_said_with_its_reason() -> None:
    beating = Beating()
    beating.account = Account(RUNNING, {VIEW.source: {"0": 7}}, None, 0.5)
    beating.heartbeats.over(ValueError("no memory"))
    assert {**beating.beat()[1], "at": 0} == {"state": "stopped", "at": 0, "error": "no memory"}


def test_a_broker_that_is_away_ends_nothing_and_loses_no_offset() -> None:
    beating = Beating()
    beating.account = Account(RUNNING, {VIEW.source: {"0": 7, "1": 5}}, None, 0.5)
    beating.groups.away = True
    with beating.heartbeats:
        wait_until(lambda: beating.said, 10, "the trouble to be told")
        beating.groups.away = False
    assert beating.groups.committed("job-word-count") == {FIRST: 7, Unit(VIEW.source, 1): 5}
    assert len(beating.said) == 1


def test_a_health_file_that_cannot_be_written_does_not_stop_the_heartbeats(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    beating = Beating(tmp_path / "file" / "health.json")
    beating.account = Account(RUNNING, {VIEW.source: {"0": 7}}, None, 0.5)
    offsets, told = beating.beat()
    assert (offsets, told["state"]) == ({FIRST: 7}, "running")
    assert "health.json" in beating.said[0]


def test_rows_that_spark_drops_are_told_at_once_and_then_less_often() -> None:
    events: SimpleQueue[Event] = SimpleQueue()
    session: Any = SimpleNamespace(streams=None)
    progress = ProgressFile(session, None, ["visits"], events)
    told = []
    for dropped in (0, 3, 1, 0, 2):
        operator = SimpleNamespace(numRowsDroppedByWatermark=dropped)
        batch: Any = SimpleNamespace(
            name="visits",
            sources=[],
            stateOperators=[operator],
            numInputRows=9,
            batchDuration=9_000,
            timestamp="2026-01-01T10:00:00Z",
        )
        event: Any = SimpleNamespace(progress=batch)
        progress.onQueryProgress(event)
    while not events.empty():
        told.append(events.get())
    assert [each for each in told if isinstance(each, Dropped)] == [
        Dropped("visits", 3),
        Dropped("visits", 6),
    ]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"at": 95, "views": {}}, None),
        ({"at": 84, "views": {}}, "has said nothing for 16 s"),
        ({"at": 99, "views": {"a": ("running", 299)}}, None),
        ({"at": 99, "views": {"a": ("running", 301)}}, "view a has made no progress for 301 s"),
        ({"at": 99, "views": {"a": ("starting", None), "b": ("failed", 1)}}, "view b has failed"),
        ([], "no file"),
        ({"at": None}, "no file"),
    ],
)
def test_a_job_that_is_dead_stuck_or_failing_is_unhealthy(document: Any, said: str | None) -> None:
    if isinstance(document, dict) and "views" in document:
        names = ("state", "silent_seconds", "error")
        document = {
            **document,
            "views": {
                name: dict(zip(names, (*view, "why"), strict=True))
                for name, view in document["views"].items()
            },
        }
    wrong = problem(document, now=100)
    assert wrong is None if said is None else said in str(wrong)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of this module's own: the views' topics have fixed names."""
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
    """What the container's health check says."""
    command = [sys.executable, "-m", "spark.health", str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.system
def test_a_job_that_is_killed_or_stopped_shows_within_seconds(
    servers: str, job: Job, backend: Backend, tmp_path: Path
) -> None:
    health = tmp_path / "health.json"
    options = ("word-count", "--trigger", "0 seconds", "--health", str(health))
    writer = Writer(servers)
    writer.send(VIEW.source, [(b"t", b"one two two")] * 3)

    def told() -> tuple[str | None, str | None]:
        headers = backend.get("/words/two").headers
        return headers.get("Pipeline-Lag"), headers.get("Pipeline-State")

    def shows(expected: tuple[str, str], timeout: float) -> float:
        began = time.monotonic()
        backend.wait(lambda: told() == expected, f"{expected}, not {told()}", timeout)
        return time.monotonic() - began

    assert not healthy(health)
    job.start(*options)
    shows(("0", "running"), 90)
    assert healthy(health)

    # with no record coming in, nothing but its heartbeat tells
    job.kill()
    assert shows(("0", "stopped"), 20) < 6  # 5 s, and one for a loaded machine
    assert backend.get("/views/words").json()["pipeline"]["state"] == "stopped"
    assert "queryable_pipeline_running{" in backend.get("/metrics").body.decode()
    writer.send(VIEW.source, [(b"t", b"two")] * 4)
    assert shows(("4", "stopped"), 20) < 6
    wait_until(lambda: not healthy(health), 30, "the health check to fail")

    # a backend that starts while the job is dead knows the lag, in records and seconds
    backend.stop()
    backend.start()
    shows(("4", "stopped"), 20)
    assert 1_000 < int(backend.get("/words/two").headers["Pipeline-Staleness"]) < 300_000

    job.start(*options)
    shows(("0", "running"), 90)
    assert job.process is not None
    os.kill(job.process.pid, signal.SIGTERM)
    assert shows(("0", "stopped"), 20) < 6
    assert job.wait_end() == 0
    assert end(job.process, 1) == 0
