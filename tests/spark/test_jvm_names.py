"""Java classes that pyspark uses for each micro-batch are looked up once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from py4j.java_gateway import JavaPackage, JVMView
from pyspark.sql import SparkSession

from local.kafka.broker import Broker
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
