"""The committed vectors are what Kafka's clients say today."""

import json
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from local.kafka.broker import Broker
from local.kafka.jars import kafka_jars
from local.kafka.java import find_java
from model.partitioner import PARTITIONERS
from tests.support.plugins.fixtures import MakeTopic
from tests.vectors import librdkafka_vectors

HERE = Path(librdkafka_vectors.__file__).parent
OF_PRODUCERS = {
    "murmur2": "murmur2_random",
    "crc32": "consistent_random",
    "fnv1a": "fnv1a_random",
}
"""By partitioner of views: that of producers."""


def committed(name: str) -> list[str]:
    return (HERE / f"{name}.jsonl").read_text().splitlines()


def test_the_java_client_says_the_same_today() -> None:
    command = [find_java(), "-cp", f"{kafka_jars()}/*", str(HERE / "PartitionVectors.java")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == committed("murmur2")


@pytest.mark.parametrize("name", PARTITIONERS)
def test_a_producer_puts_records_where_the_vectors_say(
    broker: Broker, make_topic: MakeTopic, name: str
) -> None:
    partitioner = OF_PRODUCERS[name]
    header, *vectors = map(json.loads, committed(name))
    nine = header["partitions"].index(9)
    expected = {librdkafka_vectors.key_bytes(key): said[nine] for key, said in vectors}
    # the empty key is a key to the functions, but none to all producers
    del expected[b""]
    found: dict[bytes, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        found[message.key()] = message.partition()

    topic = make_topic(partitions=9)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "partitioner": partitioner, "log_level": 0}
    )
    for key in expected:
        producer.produce(topic, b"", key, on_delivery=delivered)
    assert producer.flush(30) == 0
    assert found == expected
