import os
from collections.abc import Iterator

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, TopicPartition

from local.demo.datasets import Dataset, Record, texts
from local.demo.load import end_offsets, load
from local.errors import LocalError
from local.kafka.broker import Broker
from local.kafka.topics import Topic
from model.partitioner import partition_of
from tests.support.plugins.fixtures import MakeTopic

PARTITIONS = 4


def records() -> Iterator[Record]:
    """Records with ten keys; every seventh has none."""
    for number in range(1_000):
        key = None if number % 7 == 0 else f"key-{number % 10}".encode()
        yield Record(key, b"%d" % number, 1_357_000_000_000 + number)


def dataset(name: str, count: int = 1_000) -> Dataset:
    """The first ``count`` of the records."""

    def first() -> Iterator[Record]:
        yield from (record for record, _ in zip(records(), range(count), strict=False))

    return Dataset(Topic(name, PARTITIONS), lambda: count, first)


def content(broker: Broker, topic: str) -> dict[int, list[tuple[bytes | None, bytes]]]:
    """Keys and values by partition, in order. Also checks the timestamps of the records."""
    ends = end_offsets(broker.bootstrap_servers, topic)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused", "log_level": 0}
    )
    found: dict[int, list[tuple[bytes | None, bytes]]] = {p: [] for p in ends}
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        for message in consumer.consume(sum(ends.values()), timeout=20):
            value, partition = message.value(), message.partition()
            assert value is not None
            assert partition is not None
            assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 1_357_000_000_000 + int(value))
            found[partition].append((message.key(), value))
    finally:
        consumer.close()
    return found


def test_records_are_loaded_once_into_the_java_clients_partitions(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    assert load(broker.bootstrap_servers, dataset(topic)) == 1_000
    assert load(broker.bootstrap_servers, dataset(topic)) == 0
    found = content(broker, topic)
    murmur2 = partition_of("murmur2")
    assert murmur2 is not None
    for partition, entries in found.items():
        values = [int(value) for _, value in entries]
        assert values == sorted(values)
        assert all(murmur2(key, PARTITIONS) == partition for key, _ in entries if key is not None)
    assert sorted(int(v) for entries in found.values() for _, v in entries) == list(range(1_000))


def test_an_interrupted_load_continues_where_it_stopped(
    broker: Broker, make_topic: MakeTopic
) -> None:
    whole, interrupted = (make_topic(partitions=PARTITIONS) for _ in range(2))
    load(broker.bootstrap_servers, dataset(whole))
    load(broker.bootstrap_servers, dataset(interrupted, count=333))
    assert load(broker.bootstrap_servers, dataset(interrupted)) == 667
    assert content(broker, interrupted) == content(broker, whole)


def test_rejected_records_are_an_error(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=100)
    big = Dataset(Topic(topic, 1), lambda: 1, lambda: iter([Record(b"k", os.urandom(1_000))]))
    with pytest.raises(LocalError, match=f"rejected records of {topic}: .*too large"):
        load(broker.bootstrap_servers, big)


def test_a_missing_topic_is_an_error(broker: Broker) -> None:
    missing = Dataset(Topic("no-such-topic", 1), lambda: 1, texts)
    with pytest.raises(LocalError, match="no-such-topic"):
        load(broker.bootstrap_servers, missing)


def test_an_unreachable_broker_is_an_error() -> None:
    with pytest.raises(
        LocalError, match=r"cannot read the offsets of topic texts from 127\.0\.0\.1:1"
    ):
        end_offsets("127.0.0.1:1", "texts", timeout=1)
