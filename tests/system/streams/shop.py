"""The input of the application: random records from a fixed seed, with all rare cases.

Their times are within the last hours, because brokers delete records older than the retention.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

MINUTE = 60_000
HOUR = 60 * MINUTE
PARTITIONS = 3
INPUTS = ("orders", "visits", "payments-in", "prices-in")

START = (int(time.time() * 1000) // HOUR - 9) * HOUR
STAGES = (
    # first and last time (ms) and records of each topic
    (START, START + 5 * HOUR, 900),
    (START + 5 * HOUR, START + 6 * HOUR + 30 * MINUTE, 400),
    # begins at the last time of the previous stage: the stream time of a restarted application's
    # stores starts again
    (START + 6 * HOUR + 30 * MINUTE, START + 8 * HOUR, 400),
)
RESTART = 2
"""The stage before which the application is restarted."""

PACE = [f"pace {n}" for n in range(9)]
"""Keys of all partitions; their records advance the stream time to the start and end of a stage."""

EDGES = [f"edge {n}" for n in range(12)]
"""Keys with records around the horizon of a store."""

KEYS = [
    *("a", "a/", "a//b", "/", "ab", "abc", "a b", "a%2Fb", "%", "a?b=1&c", "a\0", "a\0\0b", "\0"),
    *("ä", "äö", "日本", "日本語", "🙂", "ключ", "\x7f", "\u07ff\uffff"),
    *(f"key-{n}" for n in range(6)),
]
ALL_KEYS = [*KEYS, *PACE, *EDGES]


class Input(NamedTuple):
    key: str
    timestamp: int  # ms
    value: str | None


def inputs(topic: str, stage: int) -> Iterator[Input]:
    """The records of one topic, in the order of sending."""
    random = Random(f"{topic} {stage}")
    first, last, count = STAGES[stage]
    forgotten = last - 2 * HOUR
    deletes = {"orders": 0.2, "payments-in": 0.02, "prices-in": 0.25}.get(topic, 0.0)
    number = 0

    def record(key: str, timestamp: int) -> Input:
        nonlocal number
        number += 1
        value = None if random.random() < deletes else f"{stage}.{number} {key[:2]};"
        return Input(key, timestamp, value)

    def edges(keys: list[str]) -> Iterator[Input]:
        for key, near in zip(keys, (-1, 0, 1) * 2, strict=True):
            yield record(key, forgotten + near)

    for key in PACE:
        yield record(key, first)
    edges_due = True
    for n in range(count):
        now = first + (last - first) * n // count
        if edges_due and now > forgotten:
            edges_due = False
            yield from edges(EDGES[:6])
        yield record(random.choice(KEYS), _around(random, now))
    for key in PACE:
        yield record(key, last)
    # these arrive when the stores no longer retain their time
    yield from edges(EDGES[6:])


def _around(random: Random, now: int) -> int:
    """A time near `now`: mostly in order, some late or very late; some at bounds of windows."""
    kind = random.random()
    if kind < 0.1:
        now -= random.randrange(3 * HOUR)
    elif kind < 0.3:
        now -= random.randrange(30 * MINUTE)
    unit = random.choice((1, 1, MINUTE, 5 * MINUTE, 10 * MINUTE))
    return now // unit * unit


def send(bootstrap_servers: str, stage: int) -> None:
    """Sends most records with the partitioner of Java clients, prices with librdkafka's default."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for partitioner, topics in (("murmur2_random", INPUTS[:3]), ("consistent_random", INPUTS[3:])):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "partitioner": partitioner,
                "log_level": 0,
                "linger.ms": 5,
            }
        )
        for topic in topics:
            for key, timestamp, value in inputs(topic, stage):
                producer.produce(
                    topic,
                    None if value is None else value.encode(),
                    key.encode(),
                    timestamp=timestamp,
                    on_delivery=delivered,
                )
        assert producer.flush(30) == 0
        assert not failed, failed[0]
