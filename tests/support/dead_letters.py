"""Reads dead letters, and restores the records that they were written for."""

from __future__ import annotations

from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from local.waiting import wait_until
from model.dead_letters import OWN_HEADER


class Sent(NamedTuple):
    """A record as a producer sends it; ``timestamp`` in ms."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


ODD = [
    Sent(b"k", b"\xff", [("a", b"1"), ("a", b"\xff\0"), ("", None), ("reason", b"\xe9")], 1_000),
    Sent(None, b"\xff", [], 1_700_000_000_000),
    Sent(b"", b"\xff", [("source-header-a", b""), ("source-offset", b"7")], 1),
    Sent(b"k", b"\xff" * 2_000, [("size", b"x" * 100_000)], 1_700_000_000_001),
]
"""Their values are not UTF-8."""


class NotUtf8(str):
    """A header's name that kafka-python sends as this byte."""

    def encode(self, *_: str) -> bytes:
        return b"\xff"


def send(servers: str, topic: str, records: list[Sent]) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for key, value, headers, timestamp in records:
        producer.produce(topic, value, key, 0, timestamp=timestamp, headers=[*headers])
    assert producer.flush(30) == 0


def records_of(servers: str, topic: str) -> list[Any]:
    """The messages of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: list[Any] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])

        def ended() -> bool:
            for message in consumer.consume(1000, 0.2):
                if (error := message.error()) is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    return True
            return False

        wait_until(ended, 30, f"the end of {topic}", 0)
    finally:
        consumer.close()
    return found


def undone(letter: Any) -> Sent:
    """The record of a dead letter, by the rule of docs/reference/dead-letters.md."""
    headers = letter.headers()
    ours = {name: text for name, text in headers if not name.startswith(OWN_HEADER)}
    assert ours.keys().isdisjoint(
        {"source-key-bytes", "source-value-bytes", "source-headers-bytes"}
    ), "the letter has only a part of the record"
    return Sent(
        ours.get("source-key"),
        None if ours.get("source-value") == b"null" else letter.value(),
        [(n.removeprefix(OWN_HEADER), text) for n, text in headers if n.startswith(OWN_HEADER)],
        int(ours["source-timestamp"]),
    )
