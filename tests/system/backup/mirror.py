"""Copies topics to another broker, as a mirror does that keeps partitions, times and headers."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from local.waiting import wait_until


def mirror(source: str, target: str, topics: list[str]) -> int:
    """Create the topics at `target` with their partitions and configuration, and copy the committed
    records. Returns their number. Offsets are not kept."""
    admin = quiet_admin(source)
    described = admin.list_topics(timeout=10).topics
    counts = {topic: len(described[topic].partitions) for topic in topics}
    create_topics(
        quiet_admin(target),
        [Topic(topic, count, _config(admin, topic)) for topic, count in counts.items()],
    )
    units = [TopicPartition(t, p, 0) for t, count in counts.items() for p in range(count)]
    consumer = Consumer(
        {
            "bootstrap.servers": source,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    producer = Producer({"bootstrap.servers": target, "acks": "all", "linger.ms": 5})
    failed: list[KafkaError] = []
    ended: set[tuple[str, int]] = set()
    copied = 0

    def step() -> bool:
        nonlocal copied
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add((message.topic(), message.partition()))
                continue
            producer.produce(
                message.topic(),
                message.value(),
                message.key(),
                partition=message.partition(),
                timestamp=message.timestamp()[1],
                headers=message.headers(),
                on_delivery=lambda e, _: e and failed.append(e),
            )
            copied += 1
        producer.poll(0)
        return len(ended) == len(units)

    try:
        consumer.assign(units)
        wait_until(step, 60, "the end of all topics", 0)
        assert producer.flush(60) == 0
    finally:
        consumer.close()
    assert not failed, failed[0]
    return copied


def _config(admin: AdminClient, topic: str) -> dict[str, str]:
    """What was set for the topic."""
    [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {
        name: entry.value
        for name, entry in future.result(10).items()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }
