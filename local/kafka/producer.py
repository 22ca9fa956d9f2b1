"""A producer for records of the local tools."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from local.kafka.connection import Kafka
from model.kafka.clients import close, own


class RecordProducer:
    """Sends records, and waits while its queue is full. This thread alone uses it."""

    def __init__(self, kafka: Kafka, **settings: Any) -> None:
        """`settings`: those of librdkafka, with `_` for `.`."""
        self._errors: list[str] = []
        errors = self._errors  # a callback with a reference to `self` would keep the client alive

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error.str())

        self._client = own(
            Producer(
                {
                    **kafka,
                    "partitioner": "murmur2_random",  # like Java clients and the views
                    "delivery.report.only.error": True,
                    "on_delivery": on_delivery,
                    "log_level": 0,
                    **{name.replace("_", "."): value for name, value in settings.items()},
                }
            )
        )

    @property
    def error(self) -> str | None:
        """Why the broker rejected a record; None if it has rejected none."""
        return self._errors[0] if self._errors else None

    def __len__(self) -> int:
        """The number of records that the broker has not confirmed."""
        return len(self._client)

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> None:
        """`partition`: -1: the producer chooses it. `timestamp_ms`: 0: the current time."""
        while True:
            try:
                self._client.produce(topic, value, key, partition, timestamp=timestamp_ms)
                return
            except BufferError:  # the queue is full
                self.poll(0.1)

    def poll(self, timeout_s: float = 0.0) -> None:
        """Waits up to `timeout_s` for answers of the broker."""
        self._client.poll(timeout_s)

    def flush(self, timeout_s: float) -> int:
        """Waits until the broker has confirmed all records; returns the number of the others."""
        return self._client.flush(timeout_s)

    def close(self) -> None:
        """Records that the broker has not confirmed are dropped."""
        self._client.purge()
        close(self._client)
