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

from backend.ingest.batch import DeadLetter
from backend.ingest.store_partitions import StorePartition
from backend.kafka.clients import LIBRDKAFKA, Librdkafka, discard, is_fatal
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.dead_letters import SUFFIX, Rejected, dead_letter
from model.kafka.admin import create_topic, reason_of
from model.kafka.clients import closing, own
from model.kafka.config import NOT_FROM_THE_FUTURE
from model.kafka.headers import headers_of
from model.topology import ACTIVE
from model.views import View

log = logging.getLogger(__name__)

_MAX_UNSENT, _MAX_UNSENT_BYTES = 100, 1 << 20  # per partition: kept on a standby, or during a pause
_PAUSE = 10.0  # length of the pause after a failure, as a multiple of the time that it took
# The longest time that a failure counts for, as a multiple of `timeout`. A longer time mostly means
# that the process was stopped
_LONGEST = 4
_MAX_BYTES = 2 << 20  # more than the default, because the headers make a record larger
_TOPIC_CONFIG = {"cleanup.policy": "compact", "max.message.bytes": str(_MAX_BYTES)}


class DeadLetters:
    """Writes dead letters. Only the ingest thread may use it."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        timeout: float,
        librdkafka: Librdkafka = LIBRDKAFKA,
    ) -> None:
        self._librdkafka = librdkafka
        # librdkafka would log each of the attempts to connect; `send` logs each failure
        self._settings = {**client_settings, "log_level": 0}
        self._timeout = timeout
        self._producer: Producer | None = None
        self._topics: set[str] = set()
        self._paused_until: dict[str, float] = {}  # topic -> s, monotonic
        self._log = RateLimitedLog(log)
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

        After a failure, the active also keeps the latest ones for a while. So a topic that does not
        work takes at most a tenth of the time of ingest.
        """
        view, unsent = store_partition.view, store_partition.unsent
        unsent += dead_letters
        if store_partition.role != ACTIVE and not is_taken_over:
            _keep_latest(unsent)
        elif unsent and time.monotonic() < self._paused_until.get(view.topic + SUFFIX, 0.0):
            self._count_lost(view, _keep_latest(unsent))
        elif unsent:
            self.send(view, store_partition.partition, unsent)
            store_partition.unsent = []

    def forget(self, store_partition: StorePartition) -> None:
        """Count the dead letters of an active that still wait for a pause to end as lost, because
        its store is closed."""
        if store_partition.role == ACTIVE:
            self._count_lost(store_partition.view, len(store_partition.unsent))

    def _count_lost(self, view: View, lost: int) -> None:
        if lost:
            with self._lock:
                self._failed += lost
            self._log.warn(
                view.name, f"view {view.name}: {lost} dead letters are lost while none is sent"
            )

    def send(self, view: View, partition: int, dead_letters: Sequence[DeadLetter]) -> None:
        """Write dead letters and wait for the broker's acknowledgement, at most for a few times
        `timeout` s.

        If the topic was deleted, it is created again, and the dead letters are sent again.

        A failure, such as a missing permission to create the topic, does not stop the view. The
        dead letters that could not be written are counted and logged.
        """
        topic = view.topic + SUFFIX
        failed_before, began = self._failed, time.monotonic()
        why = "not acknowledged"
        try:
            try:
                self._send(topic, view, partition, dead_letters)
                is_repeated = self._failed > failed_before and self._is_created_again(topic)
            except KafkaException as e:
                if not is_fatal(e.args[0]):
                    raise
                log.warning("the producer of dead letters is replaced: %s", e.args[0].str())
                is_repeated = True
            if is_repeated:
                # some may be written twice
                if self._producer is not None:
                    discard(self._producer)
                self._producer, self._failed = None, failed_before
                self._send(topic, view, partition, dead_letters)
        except (KafkaException, BufferError, TimeoutError) as e:
            with self._lock:
                self._failed = failed_before + len(dead_letters)
            why = reason_of(e)
        if failed := self._failed - failed_before:
            log.error("could not write %d dead letters to %s: %s", failed, topic, why)
            now = time.monotonic()
            took = min(now - began, _LONGEST * self._timeout)
            self._paused_until[topic] = now + _PAUSE * took

    def _send(
        self, topic: str, view: View, partition: int, dead_letters: Sequence[DeadLetter]
    ) -> None:
        """Send dead letters once. Raises KafkaException, BufferError, TimeoutError."""
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
        """Wait for the broker's answers. Returns the number of dead letters without an answer.
        Raises KafkaException. After a fatal error, `Producer.flush` would go on calling back, which
        is an error of Python."""
        end = time.monotonic() + self._timeout
        while len(producer) and time.monotonic() < end:
            producer.poll(0.1)
        return len(producer)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            with self._lock:
                self._failed += 1

    def _producer_for(self, topic: str) -> Producer:
        """The producer, after the topic was created. Raises KafkaException, TimeoutError."""
        if self._producer is None:
            settings = {
                **self._settings,
                "client.id": "queryable-dead-letters",
                "enable.idempotence": True,
                "allow.auto.create.topics": False,  # with the broker's defaults
                "linger.ms": 5,
                "message.max.bytes": _MAX_BYTES,
                "message.timeout.ms": int(self._timeout * 1000),
                "queue.buffering.max.kbytes": 65536,
            }
            self._producer = own(self._librdkafka.producer(settings))
        if topic not in self._topics:
            self._ensure(topic)
            self._topics.add(topic)
        return self._producer

    def _is_created_again(self, topic: str) -> bool:
        """Create the topic if it is missing. Returns whether it was created."""
        try:
            is_created = self._ensure(topic)
        except (KafkaException, TimeoutError):
            return False  # perhaps it is no longer allowed
        if is_created:
            log.warning("topic %s was deleted: it is created again", topic)
        return is_created

    def _ensure(self, topic: str) -> bool:
        """Create the topic if it does not exist. Returns whether it was created. Raises
        KafkaException, TimeoutError."""
        with closing(self._librdkafka.admin(self._settings)) as admin:
            # one partition: dead letters are few, and consumers read them in order
            return create_topic(
                admin, topic, 1, _TOPIC_CONFIG, self._timeout, optional=NOT_FROM_THE_FUTURE
            )


def _keep_latest(dead_letters: list[DeadLetter]) -> int:
    """Delete all but the latest dead letters. Returns the number of deleted ones."""
    before = len(dead_letters)
    count = size = 0
    for letter in reversed(dead_letters):
        size += letter.size
        if count == _MAX_UNSENT or (count and size > _MAX_UNSENT_BYTES):
            break
        count += 1
    del dead_letters[: before - count]
    return before - count
