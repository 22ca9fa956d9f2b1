"""The freshness of a whole pipeline, as readers and operators see it: with a real broker and a
pipeline that only commits its offsets and heartbeats."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from backend.pipelines.consumer_groups import ConsumerGroups
from local.kafka.broker import Broker
from local.waiting import stretch, wait_until
from model.pipelines.commands import GROUP_SUFFIX, PipelineCommand, parse_command
from tests.support.backends import Backend
from tests.support.client import Client, Response
from tests.support.deployment import Deployment, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer, commit_offsets

_JSON = {"Content-Type": "application/json"}
SOON = 5.0  # s within which a stopped pipeline must be reported
PATHS = {
    "a point read": "/derived/k",
    "a miss": "/derived/nothing",
    "a page": "/views/derived/keys",
    "a count": "/views/derived/count",
    "a ranking": "/views/derived/top?by=/n",
}


class Pipeline:
    """Commits offsets and heartbeats like a job."""

    def __init__(self, servers: str, group: str, source: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers})
        self.group, self.source = group, source

    def commit(self, offset: int, state: str | None = None, **more: Any) -> None:
        text = json.dumps({"state": state, "at": time.time_ns() // 1_000_000, **more})
        unit = TopicPartition(self.source, 0, offset, metadata=text if state else "")
        commit_offsets(self._admin, self.group, [unit])


@pytest.fixture
def pipeline(broker: Broker, make_topic: MakeTopic) -> Pipeline:
    source = make_topic(1)
    return Pipeline(broker.bootstrap_servers, f"job-{source}", source)


@pytest.fixture
def deployment(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, pipeline: Pipeline
) -> Deployment:
    topic, plain = make_topic(1), make_topic(1)
    writer.send(topic, [(b"k", b'{"n": 1}')])
    views = views_toml(
        derived={"topic": topic, "path": "/derived", "pipeline": pipeline.group},
        plain={"topic": plain, "path": "/plain"},
    )
    return deploy(views)


@pytest.fixture
def backend(deployment: Deployment) -> Iterator[Backend]:
    [backend] = deployment.start()
    yield backend
    assert "Traceback" not in backend.log()


def pipeline_status(backend: Backend) -> dict[str, Any]:
    document: dict[str, Any] = backend.get("/views/derived").json()["pipeline"]
    return document


def header(answer: Response) -> tuple[str | None, str | None]:
    return answer.headers.get("Pipeline-Lag"), answer.headers.get("Pipeline-State")


def metric(backend: Backend, name: str) -> float | None:
    lines = backend.get("/metrics").body.decode().splitlines()
    found = [line for line in lines if line.startswith(f"queryable_pipeline_{name}{{")]
    return float(found[0].split()[-1]) if found else None


def test_a_command_reaches_a_job_that_follows_commands(
    backend: Backend, pipeline: Pipeline, broker: Broker
) -> None:
    path, body = "/views/derived/pipeline", b'{"action":"pause"}'

    def post(path: str, body: bytes) -> Response:
        with Client(backend.port) as client:
            return client.request("POST", path, body=body, headers=_JSON)

    def code(path: str, body: bytes) -> tuple[int, str]:
        answer = post(path, body)
        return answer.status, answer.json()["code"]

    assert code("/views/plain/pipeline", body) == (404, "no-pipeline")
    assert code(path, body) == (503, "pipeline-unknown")
    for wrong in (b"{}", b'{"action":"stop"}', b'{"action":"pause","force":true}', b"["):
        assert code(path, wrong) == (400, "bad-request"), wrong

    def reported(state: str, **more: Any) -> bool:
        pipeline.commit(0, state, **more)
        return pipeline_status(backend)["state"] == state

    backend.wait(lambda: reported("running"), "the state", SOON)
    assert code(path, body) == (409, "pipeline-without-commands")
    stats = {"batch_ms": 250, "input_rate": 12.5, "late_rows": 3, "unknown": 1, "state_rows": "x"}
    backend.wait(
        lambda: (
            reported("running", command=None, stats=stats)
            and pipeline_status(backend)["follows_commands"]
        ),
        "the heartbeat with a command",
        SOON,
    )
    assert pipeline_status(backend)["stats"] == {
        "batch_ms": 250, "input_rate": 12.5, "late_rows": 3,
    }  # fmt: skip
    assert (
        metric(backend, "batch_duration_seconds"),
        metric(backend, "input_records_per_second"),
    ) == (0.25, 12.5)
    assert (metric(backend, "late_rows_total"), metric(backend, "state_rows")) == (3, None)
    sent = post(path, body)
    assert sent.status == 200
    groups = ConsumerGroups({"bootstrap_servers": broker.bootstrap_servers}, 10)
    group = pipeline.group + GROUP_SUFFIX
    [committed] = groups.committed([group])[group].values()
    groups.close()
    assert parse_command(committed.metadata) == PipelineCommand(sent.json()["id"], "pause")
    backend.wait(
        lambda: reported("paused", command=sent.json()["id"]), "the pause in the heartbeat", SOON
    )
    assert pipeline_status(backend)["command"] == sent.json()["id"]
    assert header(backend.get("/derived/k"))[1] == "paused"
    assert metric(backend, "running") == 0
    backend.wait(lambda: reported("stopped", command=None), "the job's end", SOON)
    assert code(path, body) == (409, "pipeline-stopped")


def test_every_answer_has_the_pipeline_lag(
    backend: Backend, pipeline: Pipeline, writer: Writer
) -> None:
    assert header(backend.get("/derived/k")) == ("unknown", "unknown")
    writer.send(pipeline.source, [(b"k", b"1")] * 10)
    pipeline.commit(4, "running")

    def behind() -> bool:
        pipeline.commit(4, "running")
        return header(backend.get("/derived/k")) == ("6", "running")

    backend.wait(behind, "Pipeline-Lag: 6", SOON)
    for what, path in PATHS.items():
        answer = backend.get(path)
        assert answer.headers["Pipeline-Lag"] == "6", what
        assert answer.headers["Pipeline-Staleness"] == "unknown", what
    with Client(backend.port) as client:
        answer = client.request("POST", "/views/derived/batch", body=b'{"keys":["k"]}')
        assert (answer.status, answer.headers["Pipeline-Lag"]) == (200, "6")
    lines = backend.get("/views/derived/keys", Accept="application/x-ndjson")
    assert lines.headers["Pipeline-Lag"] == "6"
    assert "Pipeline-Lag" not in backend.get("/plain/k").headers, "of another view"
    assert pipeline_status(backend)["sources"] == [{"topic": pipeline.source, "lag": 6}]
    assert (metric(backend, "lag_records"), metric(backend, "running")) == (6, 1)

    def fresh() -> bool:
        pipeline.commit(10, "running")
        return header(backend.get("/derived/k")) == ("0", "running")

    backend.wait(fresh, "Pipeline-Lag: 0", SOON)
    assert int(backend.get("/derived/k").headers["Pipeline-Staleness"]) < 5_000
    assert metric(backend, "staleness_seconds") is not None


def test_a_silent_pipeline_is_stopped_within_five_seconds(
    backend: Backend, pipeline: Pipeline
) -> None:
    """Its source gets no records, so only heartbeats show that it is running."""

    def running() -> bool:
        pipeline.commit(0, "running")
        return header(backend.get("/derived/k")) == ("0", "running")

    backend.wait(running, "it to run", SOON)
    last = time.monotonic()
    backend.wait(lambda: header(backend.get("/derived/k")) == ("0", "stopped"), "the stop", 20)
    assert time.monotonic() - last < (SOON + 1) * stretch()  # more for a loaded machine
    assert (pipeline_status(backend)["state"], metric(backend, "running")) == ("stopped", 0)
    assert pipeline_status(backend)["heard_ago"] >= 2_000
    pipeline.commit(0, "failed", error="Caused by: a bad record")
    backend.wait(
        lambda: pipeline_status(backend)["error"] == "Caused by: a bad record", "the error", SOON
    )
    assert header(backend.get("/derived/k")) == ("0", "failed")


def test_transaction_markers_in_the_source_are_not_lag(
    backend: Backend, pipeline: Pipeline, broker: Broker
) -> None:
    """A consumer that has read all records has committed the offset of the last transaction's
    marker, unless it commits its position."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": pipeline.group}
    )
    producer.init_transactions(20)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(pipeline.source, b"v")
        producer.commit_transaction(20)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": pipeline.group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(pipeline.source, 0, 0)])
        last = wait_until(lambda: _second(consumer), 20, "both records")
        consumer.commit(message=last, asynchronous=False)  # its offset + 1
    finally:
        consumer.close()
    backend.wait(lambda: backend.get("/derived/k").headers["Pipeline-Lag"] == "0", "no lag", 40)


def test_an_open_transaction_in_the_source_is_no_lag_and_makes_it_stale(
    backend: Backend, pipeline: Pipeline, broker: Broker
) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": pipeline.group}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(pipeline.source, b"v")
    assert producer.flush(20) == 0
    pipeline.commit(0, "running")
    backend.wait(lambda: (pipeline_status(backend)["open_transaction"] or 0) > 2000, "its age", 20)
    headers = backend.get("/derived/k").headers
    assert (headers["Pipeline-Lag"], headers["Pipeline-Staleness"]) == ("0", "unknown")
    producer.commit_transaction(20)
    pipeline.commit(1)  # a marker follows
    backend.wait(lambda: (pipeline_status(backend)["staleness"] or 9999) < 3000, "freshness", 20)
    assert pipeline_status(backend)["open_transaction"] is None


def _second(consumer: Consumer) -> Any:
    message = consumer.poll(1)
    return message if message and not message.error() and message.offset() >= 2 else None


def test_a_group_without_heartbeats_is_running_while_it_has_members(
    backend: Backend, pipeline: Pipeline, broker: Broker, writer: Writer
) -> None:
    """Like the group of Kafka Streams or any consumer."""
    writer.send(pipeline.source, [(b"k", b"1")] * 3)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": pipeline.group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
        }
    )
    try:
        consumer.subscribe([pipeline.source])

        def up_to_date() -> bool:
            consumer.poll(0.1)
            return header(backend.get("/derived/k")) == ("0", "running")

        backend.wait(up_to_date, "it to have read all", 20)
    finally:
        consumer.close()
    backend.wait(lambda: pipeline_status(backend)["state"] == "stopped", "the stop", SOON)
    writer.send(pipeline.source, [(b"k", b"1")])
    backend.wait(lambda: pipeline_status(backend)["lag"] == 1, "the lag", SOON)


def test_the_proxy_passes_on_pipeline_headers_with_every_read(
    deployment: Deployment, backend: Backend, pipeline: Pipeline
) -> None:
    """Also with coalesced reads."""
    pipeline.commit(0)
    nginx = deployment.proxy()
    with nginx.client() as client:
        backend.wait(
            lambda: header(client.get("/derived/k")) == ("0", "stopped"), "the headers", SOON
        )

    def read(_: int) -> list[tuple[str | None, str | None]]:
        with nginx.client() as client:
            return [header(client.get("/derived/k")) for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        found = [each for of_one in pool.map(read, range(8)) for each in of_one]
    assert set(found) == {("0", "stopped")}
