"""Appends records to topics, for clients without a Kafka producer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from backend.kafka.client_log import ClientLog
from backend.kafka.clients import discard
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.kafka.clients import own

_logger = logging.getLogger(__name__)
log = RateLimitedLog(_logger)

DeliveryCallback = Callable[[int | None, str], None]
"""Called in the appender's thread with the record's offset, or with None and the error."""

_MAX_QUEUED = 10_000  # records
_MAX_QUEUED_KB = 64 << 10
# How often the producer looks for new partitions of the topics that it has written to. The metadata
# poller knows them within a second, too.
_METADATA_MS = 1_000


class QueueFull(Exception):
    """The producer's queue is full."""


class NotTaken(Exception):
    """The producer has not taken the record; the message says why. It may not know the partition
    yet."""


class RecordTooLarge(Exception):
    """The record is larger than the producer may send."""


class Appender:
    """An idempotent producer and the thread that serves it."""

    def __init__(self, client_settings: Mapping[str, Any], timeout: float) -> None:
        """`timeout` (s): how long the producer tries to deliver a record."""
        self._settings = {
            **client_settings,
            "client.id": "queryable-append",
            "logger": ClientLog(_logger),
            "enable.idempotence": True,
            "linger.ms": 2,
            "delivery.timeout.ms": int(timeout * 1000),
            "queue.buffering.max.messages": _MAX_QUEUED,
            "queue.buffering.max.kbytes": _MAX_QUEUED_KB,
            "topic.metadata.refresh.interval.ms": _METADATA_MS,
        }
        self._producer: Producer | None = None
        self._is_made: Future[None] = Future()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="append", daemon=True)

    def start(self) -> None:
        """Raises KafkaException if librdkafka refuses the settings."""
        self._thread.start()
        self._is_made.result()

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes,
        value: bytes | None,
        on_delivery: DeliveryCallback,
    ) -> None:
        """Add a record to the producer's queue without waiting. Raises QueueFull, NotTaken or
        RecordTooLarge."""
        producer = self._producer
        if producer is None:
            raise NotTaken("the producer has not started yet")

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                on_delivery(message.offset(), "")
            else:
                on_delivery(None, error.str())

        try:
            producer.produce(topic, value, key, partition=partition, on_delivery=delivered)
        except BufferError:
            raise QueueFull from None
        except RuntimeError as e:  # it was closed just now
            raise NotTaken(str(e)) from None
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise RecordTooLarge from None
            log.warn(topic, f"no record is appended to topic {topic}: {error.str()}")
            raise NotTaken(error.str()) from None

    def stop(self) -> None:
        """Flush the queue and end the thread, within 10 s."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _serve(self) -> None:
        try:
            self._producer = own(Producer(self._settings))
        except Exception as e:
            self._is_made.set_exception(e)
            return
        self._is_made.set_result(None)
        while not self._stop.is_set():
            try:
                self._producer.poll(0.1)
            except KafkaException as e:  # a fatal error: it raises no others
                self._replace(self._producer, e)
        self._producer.flush(5)

    def _replace(self, failed: Producer, error: KafkaException) -> None:
        """Use a new producer: after a fatal error, the failed one takes no more records."""
        log.warn("fatal", f"the producer of appends is replaced: {error.args[0].str()}")
        self._producer = own(Producer(self._settings))
        discard(failed)
