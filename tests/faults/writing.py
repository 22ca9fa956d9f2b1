"""A producer that updates keys continuously, and records when the broker confirmed each record."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.faults.checking import Record
from tests.support.background import Background

_IN_TRANSACTION = 20  # records
_ABORTED = 3  # every third transaction


class UpdateLoad(Background):
    """Writes to `topic` while it is entered, `rate` records per second: new values for `kept` keys,
    values and deletes for `volatile` ones. If `transactional`, every third transaction is aborted.

    The client retries, so an unreachable broker delays records but loses none. `stop` returns when
    the broker has confirmed or rejected all records.
    """

    _patience = 90.0

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        kept: Sequence[str],
        volatile: Sequence[str],
        rate: float = 100.0,
        transactional: bool = False,
        first: int = 1,
    ) -> None:
        super().__init__("writing")
        self._topic = topic
        self._kept = kept
        self._volatile = volatile
        self._rate = rate
        self._random = random.Random(20130102)
        self.next_number = first  # of the next record: values {"n": number} only grow
        self._writes = threading.Lock()
        self._unsettled: list[tuple[int, Record, float]] = []
        # confirmed (and committed) records: partition, record, time
        self.confirmed: list[tuple[int, Record, float]] = []
        self.lost = 0  # records that the broker rejected, because the topic did not exist
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "partitioner": "murmur2_random",
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "topic.metadata.refresh.interval.ms": 500,
            "reconnect.backoff.max.ms": 500,
            "message.timeout.ms": 120_000,
            "log_level": 0,
        }
        if transactional:
            settings |= {"transactional.id": f"{topic}-writing", "message.timeout.ms": 30_000}
        self._transactional = transactional
        self._producer = Producer(settings)

    def __enter__(self) -> Self:
        if self._transactional:
            self._producer.init_transactions(30)
        return super().__enter__()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Waits until all records are confirmed, and writes none during the block."""
        with self._writes:
            self._producer.flush(60)
            yield

    def _work(self, number: int) -> None:
        if self._transactional:
            self._write_transactions()
        else:
            self._write()
        self._producer.flush(60)

    def _write(self) -> None:
        for _ in self._ticks():
            with self._writes:
                self._produce()

    def _write_transactions(self) -> None:
        number = 0
        ticks = self._ticks()
        while not self._stop.is_set():
            number += 1
            with self._writes:
                self._producer.begin_transaction()
                for _ in range(_IN_TRANSACTION):
                    next(ticks, None)
                    self._produce()
                if number % _ABORTED:
                    self._producer.commit_transaction(30)
                    now = time.monotonic()
                    self.confirmed += [(p, record, now) for p, record, _ in self._unsettled]
                else:
                    # aborted records must also be in the log
                    self._producer.flush(30)
                    self._producer.abort_transaction(30)
                self._unsettled.clear()

    def _ticks(self) -> Iterator[None]:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            yield
            due += 1 / self._rate

    def _produce(self) -> None:
        value: bytes | None = json.dumps({"n": self.next_number}).encode()
        self.next_number += 1
        if self._volatile and self._random.random() < 0.2:
            key = self._random.choice(self._volatile)
            if self._random.random() < 0.5:
                value = None
        else:
            key = self._random.choice(self._kept)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.lost += 1
                return
            record = (message.offset(), key, value)
            records = self._unsettled if self._transactional else self.confirmed
            records.append((message.partition(), record, time.monotonic()))

        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException:
                # the client already knows that the topic was deleted
                self.lost += 1
                break
        self._producer.poll(0)
