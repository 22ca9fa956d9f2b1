"""Java classes that pyspark uses for each micro-batch are looked up once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaPackage, JVMView
from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from spark.checkpoints.files import CheckpointFiles
from spark.jvm_names import keep_classes
from spark.kafka_admin import KafkaAdmin, TopicPartition
from spark.sources import Kafka
from tests.support.plugins.fixtures import MakeTopic


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The names that py4j asks the JVM for."""
    found: Counter[str] = Counter()
    for kind in (JVMView, JavaPackage):
        ask = kind.__getattr__

        def counted(self: Any, name: str, ask: Any = ask) -> Any:
            found[name] += 1
            return ask(self, name)

        monkeypatch.setattr(kind, "__getattr__", counted)
    return found


def test_the_end_of_a_java_iteration_needs_no_lookup(
    session: SparkSession, lookups: Counter[str]
) -> None:
    jvm: Any = session._jvm
    collection = jvm.java.util.ArrayList()
    collection.add(1)
    lookups.clear()
    assert list(collection) == [1]
    assert lookups == {}


def test_commits_need_no_lookup(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, lookups: Counter[str]
) -> None:
    topic = make_topic(partitions=2)
    offsets = {TopicPartition(topic, number): 7 + number for number in range(2)}
    with KafkaAdmin(session, Kafka(broker.bootstrap_servers)) as admin:
        lookups.clear()
        admin.commit({topic: {unit: (offset, "") for unit, offset in offsets.items()}})
        assert admin.committed(topic) == offsets
        assert lookups == {}


def test_files_of_checkpoints_need_no_lookup(
    session: SparkSession, lookups: Counter[str], tmp_path: Path
) -> None:
    files, path = CheckpointFiles(session), str(tmp_path / "view.json")
    lookups.clear()
    files.replace_json(path, {"offset": 7})
    assert files.read_json(path) == {"offset": 7}
    assert lookups == {}


def test_a_class_that_is_missing_is_looked_up_again(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, lookups: Counter[str]
) -> None:
    """Its jar may be added later."""
    jvm: Any = session._jvm
    monkeypatch.setattr("spark.jvm_names._BY_PARTS", ("org.example.Missing",))
    keep_classes(jvm)
    lookups.clear()
    assert isinstance(jvm.org.example.Missing, JavaPackage)
    assert lookups == {"Missing": 1}
