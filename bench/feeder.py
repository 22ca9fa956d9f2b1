"""Writes single records, or updates of a topic's records at a steady rate until SIGTERM.

python -m bench.feeder SERVERS COUNT RATE
"""

from __future__ import annotations

import sys
import time
from itertools import chain, islice, repeat

from bench.records import customers
from local.errors import LocalError
from local.kafka.connection import settings_of
from local.kafka.producer import RecordProducer

_STEP_S = 0.005  # between two bursts of updates


class Feeder(RecordProducer):
    """A producer; raises LocalError when the broker rejects a record."""

    def __init__(self, servers: str, linger_ms: int = 20) -> None:
        super().__init__(settings_of(servers), linger_ms=linger_ms, batch_num_messages=20_000)

    def serve(self, timeout_s: float = 0.0) -> None:
        """Waits up to `timeout_s` for answers of the broker."""
        self.poll(timeout_s)
        if self.error:
            raise LocalError(f"the broker rejected records: {self.error}.")

    def confirm(self) -> None:
        """Returns when the broker has confirmed all records."""
        unwritten = self.flush(60.0)
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
            feeder.produce(table.topic, record.value, record.key)
        written = max(written, due)
        feeder.serve(_STEP_S)


if __name__ == "__main__":
    feed(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
