"""Writes the records of a topic: each one once, or updates at a steady rate until SIGTERM.

python -m bench.feeder SERVERS COUNT RATE
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

from bench.records import Table, customers, key, number_at
from local.errors import LocalError

_STEP = 0.005  # s between two bursts of updates
_UPDATE_INTERVAL = 5000  # records between two calls of `update`


class Feeder:
    """A producer of a table's records; raises LocalError when the broker rejects a record."""

    def __init__(self, servers: str, table: Table) -> None:
        self._table = table
        self._errors: list[str] = []
        errors = self._errors  # a callback with a reference to `self` would keep the client alive

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error.str())

        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "batch.num.messages": 20_000,
                "delivery.report.only.error": True,
                "on_delivery": on_delivery,
            }
        )

    def produce(self, number: int) -> None:
        while True:
            try:
                self._producer.produce(self._table.topic, self._table.value(number), key(number))
                return
            except BufferError:  # the queue is full
                self.serve(0.1)

    def serve(self, timeout: float = 0.0) -> None:
        self._producer.poll(timeout)
        self._check()

    def flush(self) -> None:
        left = self._producer.flush(60.0)
        self._check()
        if left:
            raise LocalError(f"{left} records were not written within a minute.")

    def _check(self) -> None:
        if self._errors:
            raise LocalError(
                f"the broker rejected records of {self._table.topic}: {self._errors[0]}."
            )


def fill(servers: str, table: Table, update: Callable[[int], None]) -> None:
    """Writes all records of a table, every key once; `update` gets the number written so far."""
    feeder = Feeder(servers, table)
    for position in range(table.count):
        feeder.produce(number_at(position, table.count))
        if position % _UPDATE_INTERVAL == 0:
            feeder.serve()
            update(position)
    feeder.flush()
    update(table.count)


def feed(servers: str, table: Table, rate: int) -> None:
    """Writes the records repeatedly, `rate` per second, without end."""
    feeder = Feeder(servers, table)
    began, written = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * rate)
        for position in range(written, due):
            feeder.produce(number_at(position % table.count, table.count))
        written = max(written, due)
        feeder.serve(_STEP)


if __name__ == "__main__":
    feed(sys.argv[1], customers(int(sys.argv[2])), int(sys.argv[3]))
