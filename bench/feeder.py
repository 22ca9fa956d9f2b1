"""Writes records: all of a topic once, or updates of its keys at a steady rate until SIGTERM.

python -m bench.feeder SERVERS COUNT RATE
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

from bench.records import Table, customers, in_log_order, key
from local.errors import LocalError

_STEP = 0.005
_MANY = 5000


class Feeder:
    """An ordinary producer of a table's records; LocalError when a record was refused."""

    def __init__(self, servers: str, table: Table) -> None:
        self._table = table
        self._refused: list[str] = []
        refused = self._refused  # a callback that knew this object would keep the client alive

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error.str())

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
            raise LocalError(
                f"the broker refused records of {self._table.topic}: {self._refused[0]}."
            )


def fill(servers: str, table: Table, update: Callable[[int], None]) -> None:
    """Write all records of a table, every key once; tells how many were written by now."""
    feeder = Feeder(servers, table)
    for position in range(table.count):
        feeder.produce(in_log_order(position, table.count))
        if position % _MANY == 0:
            feeder.serve()
            update(position)
    feeder.flush()
    update(table.count)


def feed(servers: str, table: Table, rate: int) -> None:
    """Write records again and again, `rate` a second, for ever."""
    feeder = Feeder(servers, table)
    began, written = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * rate)
        for position in range(written, due):
            feeder.produce(in_log_order(position % table.count, table.count))
        written = max(written, due)
        feeder.serve(_STEP)


if __name__ == "__main__":
    feed(sys.argv[1], customers(int(sys.argv[2])), int(sys.argv[3]))
