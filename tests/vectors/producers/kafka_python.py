"""Writes the records of standard input with the defaults of kafka-python (README.md)."""

from __future__ import annotations

import sys

import kafka

from tests.vectors.producers import records


def integer(kind: str, number: int) -> bytes:
    return number.to_bytes({"int32": 4, "int64": 8}[kind], "big", signed=True)


producer = kafka.KafkaProducer(bootstrap_servers=sys.argv[1])
sent = [producer.send(record.topic, record.value, record.key) for record in records.read(integer)]
for future in sent:
    future.get(60)
producer.close()
print(kafka.__version__)
