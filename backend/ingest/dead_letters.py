"""Writes records that cannot be decoded to `<topic>.dead-letter`.

`model.dead_letters` defines their key, value and headers. A replay writes the same key again, and
compaction keeps one record per key.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from backend.ingest.batch import DeadLetter
from backend.ingest.store_partitions import StorePartition
from backend.kafka_clients import is_fatal
from model.dead_letters import SUFFIX, Rejected, dead_letter
from model.kafka.config import NOT_FROM_THE_FUTURE
from model.kafka.headers import headers_of
from model.topology import ACTIVE
from model.views import View

log = logging.getLogger(__name__)

_MAX_UNSENT, _MAX_UNSENT_BYTES = 100, 1 << 20  # per partition, on a standby
_MAX_BYTES = 2 << 20  # more than the default, because the headers make a record larger
_TOPIC_CONFIG = {"cleanup.policy": "compact", "max.message.bytes": str(_MAX_BYTES)}


class DeadLetters:
    """Writes dead letters. Only the ingest thread may use it."""

    def __init__(self, client_settings: Mapping[str, Any], timeout: float) -> None:
        self._settings = dict(client_settings)
        self._timeout = timeout
        self._producer: Producer | None = None
        self._topics: set[str] = set()
        self._failed = 0
        self._lock = threading.Lock()

    @property
    def failed(self) -> int:
        """The number of dead letters that could not be written."""
        return self._failed

    def take(
        self,
        store_partition: StorePartition,
        dead_letters: Sequence[DeadLetter] = (),
        is_taken_over: bool = False,
    ) -> None:
        """Write dead letters if this instance is the partition's active.

        Other instances keep the latest ones in memory, and write them when the active changes: the
        old active may not have written them, and the new one may have started from a snapshot with
        a later position. Duplicates have the same key.
        """
        store_partition.unsent += dead_letters
        if store_partition.role != ACTIVE and not is_taken_over:
            _keep_latest(store_partition.unsent)
        elif store_partition.unsent:
            self.send(store_partition.view, store_partition.partition, store_partition.unsent)
            store_partition.unsent = []

    def send(self, view: View, partition: int, dead_letters: Sequence[DeadLetter]) -> None:
        """Write dead letters and wait for the broker's acknowledgement, at most `timeout` s.

        A failure, such as a missing permission to create the topic, does not stop the view. The
        dead letters that could not be written are counted and logged.
        """
        topic = view.topic + SUFFIX
        failed_before = self._failed
        try:
            try:
                self._send(topic, view, partition, dead_letters)
            except KafkaException as e:
                if not is_fatal(e.args[0]):
                    raise
                log.warning("the producer of dead letters is replaced: %s", e.args[0].str())
                # some may be written twice
                self._producer, self._failed = None, failed_before
                self._send(topic, view, partition, dead_letters)
        except (KafkaException, BufferError) as e:
            with self._lock:
                self._failed = failed_before + len(dead_letters)
            log.error("could not write %d dead letters to %s: %s", len(dead_letters), topic, e)
            return
        failed = self._failed - failed_before
        if failed:
            log.error("could not write %d dead letters to %s", failed, topic)

    def _send(
        self, topic: str, view: View, partition: int, dead_letters: Sequence[DeadLetter]
    ) -> None:
        """Raises KafkaException, BufferError."""
        producer = self._producer_for(topic)
        for letter in dead_letters:
            record = letter.record
            rejected = Rejected(
                view.topic,
                partition,
                record.offset(),
                record.timestamp()[1],
                record.key(),
                record.value(),
                headers_of(record),
            )
            key, value, headers = dead_letter(rejected, letter.reason, f"backend/{view.name}")
            produce = partial(
                producer.produce,
                topic,
                key=key,
                value=value,
                headers=[*headers],
                on_delivery=self._delivered,
            )
            try:
                produce()
            except BufferError:  # the queue is full
                self._flush(producer)
                produce()
            producer.poll(0)
        if self._flush(producer):
            producer.purge()
            producer.flush(1)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(self._timeout)

    def _flush(self, producer: Producer) -> int:
        """Wait for the answers of the broker; the number of dead letters without one. Raises
        KafkaException. After a fatal error, `Producer.flush` would go on calling back, which is an
        error of Python."""
        end = time.monotonic() + self._timeout
        while len(producer) and time.monotonic() < end:
            producer.poll(0.1)
        return len(producer)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            with self._lock:
                self._failed += 1

    def _producer_for(self, topic: str) -> Producer:
        """The producer, after the topic was created. Raises KafkaException."""
        if self._producer is None:
            self._producer = Producer(
                {
                    **self._settings,
                    "client.id": "queryable-dead-letters",
                    "enable.idempotence": True,
                    "linger.ms": 5,
                    "message.max.bytes": _MAX_BYTES,
                    "message.timeout.ms": int(self._timeout * 1000),
                    "queue.buffering.max.kbytes": 65536,
                }
            )
        if topic not in self._topics:
            try:
                self._create(topic, {**_TOPIC_CONFIG, **NOT_FROM_THE_FUTURE})
            except KafkaException as e:
                if e.args[0].code() != KafkaError.INVALID_CONFIG:
                    raise
                self._create(topic, _TOPIC_CONFIG)
            self._topics.add(topic)
        return self._producer

    def _create(self, topic: str, config: dict[str, str]) -> None:
        """Create the topic if it does not exist. Raises KafkaException."""
        admin = AdminClient(self._settings)
        # one partition: dead letters are few, and consumers read them in order
        new = NewTopic(topic, num_partitions=1, config=config)
        [future] = admin.create_topics([new], operation_timeout=self._timeout).values()
        try:
            future.result(self._timeout + 1)
        except KafkaException as e:
            if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _keep_latest(dead_letters: list[DeadLetter]) -> None:
    count = size = 0
    for letter in reversed(dead_letters):
        size += letter.size
        if count == _MAX_UNSENT or (count and size > _MAX_UNSENT_BYTES):
            break
        count += 1
    del dead_letters[: len(dead_letters) - count]
