"""Writes generated records to the raw topics, while the job is killed and started again."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType

from confluent_kafka import KafkaError, Producer

from tests.pipelines.raw_records import GENERATORS, RawRecord
from tests.support.background import Background

_PAUSE = 0.25  # s between two portions
_TRICKLE = 2.0  # records a second for a topic that has its limit: its views still get micro-batches
_FLUSH_TIMEOUT = 60.0  # s


class Feeder(Background):
    """Sends `rate` records a second to each topic, or a share of it, in a thread. From `limit`
    records on, it sends few. It tries for as long as the broker is away."""

    _patience = 2 * _FLUSH_TIMEOUT

    def __init__(
        self, servers: str, topics: Iterable[str], seed: int, rate: float, limit: int
    ) -> None:
        super().__init__("feeder")
        self._generators = {topic: GENERATORS[topic](f"{seed}-{topic}") for topic in topics}
        self._portion = max(1, round(rate * _PAUSE))
        self._limit = limit
        self._due = dict.fromkeys(self._generators, 0.0)
        self._failed: list[KafkaError] = []
        self.paused = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "message.timeout.ms": 0,  # never give up
                "queue.buffering.max.messages": 1_000_000,
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    @property
    def sent(self) -> int:
        return sum(each.count for each in self._generators.values())

    def burst(self, count: int) -> None:
        """Sends `count` records to each topic; for use before the thread starts."""
        for topic, generator in self._generators.items():
            self._send(topic, generator.take(max(1, round(generator.share * count))))
        self._flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._producer.purge()  # the broker may be away
        super().__exit__(kind, error, trace)

    def _work(self, number: int) -> None:
        while not self._stop.wait(_PAUSE):
            for topic, generator in self._generators.items():
                waiting = len(self._producer) > 20 * self._portion  # the broker is away
                if not self.paused.is_set() and not waiting:
                    is_above = generator.count >= self._limit
                    portion = _TRICKLE * _PAUSE if is_above else generator.share * self._portion
                    self._due[topic] += portion
                    whole = int(self._due[topic])
                    self._due[topic] -= whole
                    self._send(topic, generator.take(whole))
            self._producer.poll(0)
        self._flush()

    def _send(self, topic: str, records: Iterable[RawRecord]) -> None:
        for key, value, at, partition in records:
            self._producer.produce(
                topic, value, key, partition=partition, timestamp=at, on_delivery=self._on_delivery
            )
            self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    def _flush(self) -> None:
        left = self._producer.flush(_FLUSH_TIMEOUT)
        assert left == 0, f"{left} records were not delivered"
        assert not self._failed, self._failed[0]
