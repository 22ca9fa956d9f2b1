"""For how long a view has been silent, for the health check: what a restart of the job may mend."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from local.waiting import wait_until
from model.pipelines.commands import REBUILD
from spark.kafka_admin import KafkaAdmin
from spark.sources import Kafka
from spark.supervision.rebuilds import Rebuilds
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.controlled import ControlledRunner


def test_the_health_file_has_no_silence_that_is_normal(
    runner: ControlledRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    health, delete = tmp_path / "health.json", Rebuilds.delete_old_keys
    runner.settings = replace(runner.settings, trigger="1 hour", health=health)

    def document() -> Any:
        return json.loads(health.read_text())

    def view() -> Any:
        return document()["views"]["word-count"]

    def delete_slowly(of_job: Rebuilds, name: str) -> None:
        wait_until(lambda: view()["silent_seconds"] is None, 30, "no silence")
        delete(of_job, name)

    monkeypatch.setattr(Rebuilds, "delete_old_keys", delete_slowly)
    runner.write(b"one")
    with runner.stream():
        runner.wait_counts(one=1)
        wait_until(lambda: view()["state"] == "running", 60, "the report")
        began = document()["at"]
        wait_until(lambda: document()["at"] > began + 2, 60, "two seconds of the job")
        assert view()["silent_seconds"] == 0
        runner.send(REBUILD)
        runner.wait_rebuilt()


def test_heartbeats_do_not_wait_for_a_partition_without_a_leader(
    session: SparkSession, broker: Broker, make_topic: MakeTopic
) -> None:
    """The brokers do not know the second partition, so the client looks for its leader until the
    timeout, which ends a request for all offsets."""
    topic = make_topic()
    with KafkaAdmin(session, Kafka(broker.bootstrap_servers)) as admin:
        wait_until(lambda: topic in admin.topics([topic]), 20, "the topic")
        partitions = admin.topics([topic])[topic].partitions
        look = admin.ask_for_end_offsets({topic: partitions + 1})
        wait_until(lambda: len(look().offsets.get(topic, {})) == partitions, 30, "the others")
        assert not look().is_complete
        assert look().offsets == admin.end_offsets({topic: partitions})
        wait_until(lambda: look().is_complete, 60, "the timeout")
        assert look().offsets == admin.end_offsets({topic: partitions})
        assert f"{topic}, partition {partitions}: " in (look().error or "")
