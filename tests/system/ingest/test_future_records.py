"""Topics that the product creates reject records of the far future, if the broker supports it."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from backend.ingest.batch import DeadLetter
from backend.ingest.dead_letters import DeadLetters
from backend.kafka.clients import LIBRDKAFKA, Librdkafka
from local.demo.datasets import demo_topics
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.settings import REPOSITORY
from local.spark_views import declared_views
from tests.support.in_process.examples import view
from tests.support.in_process.fakes import Rec
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import history

HOUR = 3_600_000
NAME = "message.timestamp.after.max.ms"


def is_set(broker: Broker, topic: str) -> bool:
    """Whether the topic itself limits how far ahead a record's time may be."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = quiet_admin(broker.bootstrap_servers)
    [future] = admin.describe_configs([resource]).values()
    entry = future.result(10)[NAME]
    return not entry.is_default and int(entry.value) == HOUR


class OldBroker:
    """An admin client of a broker that does not know the setting (before Kafka 3.6)."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self.refused = 0

    def create_topics(self, topics: list[Any], **more: Any) -> Any:
        if any(NAME in topic.config for topic in topics):
            self.refused += 1
            return {topic.topic: self for topic in topics}
        return self._admin.create_topics(topics, **more)

    def result(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError.INVALID_CONFIG, "Unknown topic config"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._admin, name)


def produce(broker: Broker, topic: str, timestamp: int) -> str:
    """Produces a record with this time. Returns the name of the broker's error, or nothing."""
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(
        topic, b"v", b"k", timestamp=timestamp,
        on_delivery=lambda error, _: errors.append(error.name() if error else ""),
    )  # fmt: skip
    assert producer.flush(20) == 0
    return errors[0]


def test_past_records_are_accepted_and_far_future_records_rejected(
    broker: Broker, make_topic: MakeTopic
) -> None:
    name = f"{make_topic()}-by-us"
    create_topics(quiet_admin(broker.bootstrap_servers), [Topic(name, 1)])
    assert is_set(broker, name)
    now = time.time_ns() // 1_000_000
    assert produce(broker, name, 1_357_000_000_000) == ""  # the demo's records are of 2013
    assert produce(broker, name, now + HOUR // 2) == ""
    assert produce(broker, name, now + 2 * HOUR) == "INVALID_TIMESTAMP"


def test_the_demo_topics_do_not_override_the_setting() -> None:
    topics = demo_topics(declared_views(REPOSITORY / "views.toml").values())
    assert all(NAME not in topic.config for topic in topics)


def test_the_setting_is_omitted_for_brokers_that_do_not_know_it(
    broker: Broker, make_topic: MakeTopic
) -> None:
    there = make_topic()
    old = OldBroker(quiet_admin(broker.bootstrap_servers))
    names = [f"{there}-b", f"{there}-c"]
    wanted = [Topic(there, 1), *(Topic(name, 1) for name in names)]
    assert sorted(create_topics(cast(Any, old), wanted)) == names
    assert old.refused == 3
    assert not is_set(broker, names[0])


@pytest.mark.parametrize("is_old", [False, True], ids=["new", "old"])
def test_dead_letter_topics(broker: Broker, make_topic: MakeTopic, is_old: bool) -> None:
    topic = make_topic()
    old = Librdkafka(admin=cast(Any, lambda given: OldBroker(AdminClient(given))))
    letters = DeadLetters(
        {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0},
        10,
        librdkafka=old if is_old else LIBRDKAFKA,
    )
    bad = DeadLetter(cast(Any, Rec(0, b"k", b"{", 4_070_908_800_000)), "no JSON")
    letters.send(view("v", topic=topic), 0, [bad])
    letters.close()
    assert letters.failed == 0
    [log] = history(broker.bootstrap_servers, f"{topic}.dead-letter", 1)
    assert [value for _, _, _, value in log.records] == [b"{"]
    assert is_set(broker, f"{topic}.dead-letter") == (not is_old)
