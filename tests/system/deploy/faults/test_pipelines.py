"""Faults of a Spark job: a record that ends its query again and again, its death, and a start that
does not end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from local.kafka.broker import Broker, quiet_admin
from tests.support.backends import Backend
from tests.support.background import Background
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.prometheus.scrapes import Scrape, later, targets, when
from tests.support.topics import Writer, commit_offsets
from tests.system.deploy.faults.conftest import Alarms
from tests.system.spark.test_run import Job

NAME = "checked-texts"
# no Python workers, which take seconds to start
MODULE = """
from pyspark.sql import functions as F

from spark.raw_topics.texts import TEXTS
from spark.view import View


def checked(texts):
    text = F.col("text")
    wrong = F.raise_error("a text that the view does not expect").cast("string")
    return texts.select(
        text.alias("key"), F.when(text == "unexpected", wrong).otherwise(text).alias("value")
    )


VIEW = View(
    name="{name}",
    description="texts",
    source="{source}",
    topic="{topic}",
    decoder=TEXTS,
    derive=checked,
)
"""


@pytest.fixture
def job(broker: Broker, tmp_path: Path) -> Iterator[Job]:
    made = Job(broker.bootstrap_servers, tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.mark.raises(
    "QueryablePipelineStopped", "QueryablePipelineRestarts", "QueryablePipelineBehind"
)
@pytest.mark.walks("QueryablePipelineStopped", "QueryablePipelineRestarts")
def test_a_record_ends_the_query_and_then_the_job_is_killed(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, job: Job, tmp_path: Path, alarms: Alarms
) -> None:
    source, topic = make_topic(), make_topic(cleanup_policy="compact")
    module = tmp_path / "view.py"
    module.write_text(MODULE.format(name=NAME, source=source, topic=topic))
    writer.send(source, [(b"t", b"expected")])
    job.start(str(module), "--trigger", "0 seconds")
    group = f"queryable-spark-{NAME}"
    [backend] = deploy(views_toml(texts={"topic": topic, "pipeline": group})).start()
    of = targets(f"http://127.0.0.1:{backend.port}")

    def state(found: Scrape) -> tuple[list[float], list[float]]:
        return found.of("queryable_pipeline_running"), found.of("queryable_pipeline_lag_records")

    healthy = when(of, lambda found: state(found) == ([1], [0]), 90, "the job to have read all")
    alarms.silent(healthy)

    writer.send(source, [(b"t", b"unexpected")])
    restarts = "queryable_pipeline_restarts_total"
    failing = when(
        of, lambda found: found.of(restarts) > [0] and state(found) == ([0], [1]), 30, "a restart"
    )
    every = {
        "QueryablePipelineStopped", "QueryablePipelineRestarts", "QueryablePipelineBehind",
    }  # fmt: skip
    assert alarms.raised(healthy, failing, later(of, failing)) == every
    alarms.walk("QueryablePipelineRestarts", _differing(backend))

    job.kill()
    # its last heartbeat says that it has failed; backends notice that no other one follows
    backend.wait(lambda: backend.get("/views/texts").json()["pipeline"]["state"] == "stopped", "it")
    dead = when(of, lambda found: state(found) == ([0], [1]), 10, "the stop")
    found = alarms.raised(dead, dead, later(of, dead))
    assert found == {"QueryablePipelineStopped", "QueryablePipelineBehind"}
    alarms.walk("QueryablePipelineStopped", _differing(backend))


@pytest.mark.raises("QueryablePipelineBehind")
@pytest.mark.walks("QueryablePipelineBehind")
def test_a_job_starts_again_and_again(
    deploy: Deploy, make_topic: MakeTopic, broker: Broker, alarms: Alarms
) -> None:
    """As if it ran out of memory before its first micro-batch: only its heartbeats are real here,
    and tests/unit/spark/test_freshness.py has those of a job that starts."""
    source, topic = make_topic(), make_topic(cleanup_policy="compact")
    [backend] = deploy(views_toml(texts={"topic": topic, "pipeline": "starting"})).start()
    of = targets(f"http://127.0.0.1:{backend.port}")
    with Heartbeats(broker, source):
        starting = when(
            of, lambda found: found.of("queryable_pipeline_running") == [1], 15, "the state"
        )
        assert alarms.raised(starting, starting) == {"QueryablePipelineBehind"}
        alarms.walk("QueryablePipelineBehind", _differing(backend))


class Heartbeats(Background):
    """Those of a job that starts, until the end of the block."""

    def __init__(self, broker: Broker, source: str) -> None:
        super().__init__("heartbeats")
        self._admin, self._source = quiet_admin(broker.bootstrap_servers), source

    def _work(self, number: int) -> None:
        while not self._stop.wait(0.5):
            beat = json.dumps({"state": "starting", "at": time.time_ns() // 1_000_000})
            position = TopicPartition(self._source, 0, 0, metadata=beat)
            commit_offsets(self._admin, "starting", [position])


def _differing(backend: Backend) -> dict[str, str]:
    """What differs from a runbook."""
    return {"127.0.0.1:8080": backend.address, "orders": "texts"}
