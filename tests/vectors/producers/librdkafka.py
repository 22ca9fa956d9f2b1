"""Writes the records of standard input with the defaults of confluent-kafka, and so of librdkafka
(README.md)."""

from __future__ import annotations

import sys

import confluent_kafka
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.serialization import IntegerSerializer

from tests.vectors.producers import records

failed: list[KafkaError] = []


def integer(kind: str, number: int) -> bytes:
    """confluent-kafka has a serializer for 32 bits."""
    if kind == "int32":
        return IntegerSerializer()(number) or b""
    return number.to_bytes(8, "big", signed=True)


def delivered(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        failed.append(error)


producer = Producer({"bootstrap.servers": sys.argv[1]})
for record in records.read(integer):
    producer.produce(record.topic, record.value, record.key, on_delivery=delivered)
    producer.poll(0)
if producer.flush(60) or failed:
    sys.exit(f"records were not delivered: {failed[:1]}")
print(confluent_kafka.libversion()[0])
