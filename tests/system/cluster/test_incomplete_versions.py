"""A version becomes current only if its job runs, and it has everything that was written before the
command. With a real broker, and jobs that only copy records, commit offsets and send heartbeats."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.background import Background
from tests.support.client import Client, Response
from tests.support.deployment import Deployment, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer, commit_offsets

COUNT = 5000
"""Records of the source: fewer than QUERYABLE_ACCEPTABLE_RECOVERY_LAG."""


class Job(Background):
    """Copies a source to the topic of a version, up to `goal`. Sends heartbeats with `state`."""

    def __init__(self, servers: str, group: str, source: str, topic: str, writer: Writer) -> None:
        super().__init__(f"job-{group}")
        self._admin = AdminClient({"bootstrap.servers": servers})
        self.group, self._source, self._topic, self._writer = group, source, topic, writer
        self.state, self.goal, self._offset = "running", 0, 0

    def _work(self, number: int) -> None:
        while not self._stop.is_set():
            numbers = range(self._offset, self.goal)
            self._writer.send(self._topic, [(b"%d" % n, b"%d" % n) for n in numbers])
            self._offset += len(numbers)
            text = json.dumps({"state": self.state, "at": time.time_ns() // 1_000_000})
            unit = TopicPartition(self._source, 0, self._offset, metadata=text)
            commit_offsets(self._admin, self.group, [unit])
            self._stop.wait(0.3)


@pytest.fixture
def jobs(broker: Broker, make_topic: MakeTopic, writer: Writer) -> Iterator[tuple[Job, Job]]:
    source = make_topic(1)
    writer.send(source, [(b"%d" % n, b"%d" % n) for n in range(COUNT)])
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(
                Job(broker.bootstrap_servers, f"job-{topic}", source, topic, writer)
            )
            for topic in (make_topic(1), make_topic(2))
        )
        first.goal = COUNT
        yield first, second


@pytest.fixture
def deployment(deploy: Deploy, jobs: tuple[Job, Job]) -> Deployment:
    text = ""
    for version, job in enumerate(jobs, 1):
        entry = views_toml(orders={"topic": job._topic, "pipeline": job.group})
        text += entry.replace("[views.orders]", f'[views."orders@{version}"]')
    made = deploy(text, standby_replicas="1")
    made.start(2)
    return made


def command(deployment: Deployment, name: str, **body: Any) -> Response:
    with Client(deployment.all[0].port) as client:
        return client.request("POST", f"/views/orders/{name}", json.dumps(body).encode())


def is_running(deployment: Deployment, state: str = "running") -> None:
    """Waits until instances know the state of both jobs, or of one in another state."""

    def known() -> bool:
        versions = deployment.all[0].get("/views/orders/versions").json()["versions"]
        states = {each["pipeline"]["state"] for each in versions}
        return states == {"running"} if state == "running" else state in states

    wait_until(known, 20, f"the jobs to be {state}", 0.1)


def test_a_version_that_lacks_records_does_not_become_current(
    deployment: Deployment, jobs: tuple[Job, Job]
) -> None:
    first, second = jobs
    is_running(deployment)
    refused = command(deployment, "switch", version=2, wait=1)
    assert (refused.status, refused.code) == (409, "version-not-ready")
    problem = refused.json()
    assert f"{COUNT:,} records behind its sources" in problem["detail"], problem
    assert (problem["lag"], problem["may_end"]) == (COUNT, True)

    second.state = "paused"
    second.goal = COUNT // 2
    is_running(deployment, "paused")
    began = time.monotonic()
    refused = command(deployment, "switch", version=2, wait=50)
    assert refused.code == "version-not-ready"
    assert "is paused, 2,500 records behind its sources" in refused.json()["detail"]
    assert refused.json()["may_end"] is False
    assert time.monotonic() - began < 20, "waiting does not help"

    # it goes on while the command waits, and each key of the source is there afterwards
    second.state = "running"
    is_running(deployment)
    second.goal = COUNT
    answer = command(deployment, "switch", version=2, wait=50)
    assert answer.status == 200, answer
    for backend in deployment.all:
        count = backend.get("/views/orders@2/count?exact=true").json()["count"]
        assert count == COUNT

    first.state = "stopped"
    is_running(deployment, "stopped")
    refused = command(deployment, "rollback")
    assert (refused.status, refused.code) == (409, "version-not-ready")
    assert f"its pipeline {first.group} is stopped" in refused.json()["detail"]
    assert command(deployment, "rollback", force=True).json()["current"] == 1
