"""Writes records: all of the topic once, or updates of its keys at a steady rate until SIGTERM.

python -m bench.feeder SERVERS COUNT RATE
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

from bench.records import TOPIC, in_log_order, key, value
from local.errors import LocalError

_STEP = 0.005


class Feeder:
    """An ordinary producer; LocalError when a record was refused."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "batch.num.messages": 20_000,
                "delivery.report.only.error": True,
                "on_delivery": self._on_delivery,
            }
        )
        self._refused: list[str] = []

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._refused.append(error.str())

    def produce(self, number: int) -> None:
        while True:
            try:
                self._producer.produce(TOPIC, value(number), key(number))
                return
            except BufferError:  # its queue is full
                self.serve(0.1)

    def serve(self, timeout: float = 0.0) -> None:
        self._producer.poll(timeout)
        self._check()

    def flush(self) -> None:
        left = self._producer.flush(60.0)
        self._check()
        if left:
            raise LocalError(f"{left} records could not be written within a minute.")

    def _check(self) -> None:
        if self._refused:
            raise LocalError(f"the broker refused records of {TOPIC}: {self._refused[0]}.")


def fill(servers: str, count: int, update: Callable[[int], None]) -> None:
    """Write `count` records, every key once."""
    feeder = Feeder(servers)
    for position in range(count):
        feeder.produce(in_log_order(position, count))
        if position % 5000 == 0:
            feeder.serve()
            update(position)
    feeder.flush()
    update(count)


def feed(servers: str, count: int, rate: int) -> None:
    """Write records again and again, `rate` a second, for ever."""
    feeder = Feeder(servers)
    began, written = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * rate)
        for position in range(written, due):
            feeder.produce(in_log_order(position % count, count))
        written = max(written, due)
        feeder.serve(_STEP)


if __name__ == "__main__":
    feed(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
