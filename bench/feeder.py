"""Writes single records, or updates of a topic's records at a steady rate until SIGTERM.

python -m bench.feeder SERVERS COUNT RATE
"""

from __future__ import annotations

import sys
import time
from itertools import chain, islice, repeat

from confluent_kafka import KafkaError, Message, Producer

from bench.records import customers
from local.errors import LocalError

_STEP_S = 0.005  # between two bursts of updates


class Feeder:
    """A producer; raises LocalError when the broker rejects a record."""

    def __init__(self, servers: str, linger_ms: int = 20) -> None:
        self._errors: list[str] = []
        errors = self._errors  # a callback with a reference to `self` would keep the client alive

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error.str())

        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "partitioner": "murmur2_random",
                "linger.ms": linger_ms,
                "batch.num.messages": 20_000,
                "delivery.report.only.error": True,
                "on_delivery": on_delivery,
            }
        )

    def produce(self, topic: str, key: bytes | None, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key)
                return
            except BufferError:  # the queue is full
                self.serve(0.1)

    def serve(self, timeout: float = 0.0) -> None:
        """Waits up to `timeout` s for answers of the broker."""
        self._producer.poll(timeout)
        if self._errors:
            raise LocalError(f"the broker rejected records: {self._errors[0]}.")

    def flush(self) -> None:
        """Returns when the broker has confirmed all records."""
        unwritten = self._producer.flush(60.0)
        self.serve()
        if unwritten:
            raise LocalError(f"{unwritten} records were not written within a minute.")


def feed(servers: str, count: int, rate: int) -> None:
    """Writes the records repeatedly, `rate` per second, without end."""
    feeder, table = Feeder(servers), customers(count)
    updates = chain.from_iterable(table.records() for _ in repeat(None))
    began, written = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * rate)
        for record in islice(updates, max(0, due - written)):
            feeder.produce(table.topic, record.key, record.value)
        written = max(written, due)
        feeder.serve(_STEP_S)


if __name__ == "__main__":
    feed(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
