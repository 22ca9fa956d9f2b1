"""The consumer of one instance: its assignment, and the records that it fetches.

This is the interface between ingest and Kafka's client. The rest of ingest only sees records and
offsets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from backend.ingest.protocols import Record
from backend.ingest.store_partitions import PartitionRegistry
from backend.kafka.client_log import ClientLog
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.kafka.clients import close, own

log = logging.getLogger(__name__)
_errors = RateLimitedLog(log)

_PAUSE = 1.0  # s until a partition is read again after its next records could not be read
_LATE_ERRORS = 2  # errors that may follow later after damaged records
_MAX_WAIT = 0.25  # s; a wait for records cannot be ended early
_MORE_RECORDS_TIMEOUT = 0.01  # s that a fetch waits for more records after the first one
_METADATA_TIMEOUT = 0.5  # s

Source = tuple[str, int]
"""A topic and the number of a partition."""

_SETTINGS = {
    "client.id": "queryable-ingest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "check.crcs": True,  # by default, records that changed on a broker's disk are accepted
    "allow.auto.create.topics": False,
    "log_level": 6,  # disconnections
    # a partition that is assigned during this wait is fetched after it; records end it immediately
    "fetch.wait.max.ms": 250,
    "fetch.error.backoff.ms": 100,
    "reconnect.backoff.max.ms": 1000,
    # memory for fetched records: 16 MB for all partitions together
    "queued.max.messages.kbytes": 16384,
    "queued.min.messages": 20000,
    # by default a full queue pauses fetching for 1 s: 45,000 instead of 200,000 records/s
    "fetch.queue.backoff.ms": 5,
}


@dataclass
class Fetched:
    """The result of one fetch.

    `records`: in offset order. `ends`: the log ends that were reached. `lost`: the partitions whose
    log does not have the requested offset. `truncated`: the partitions whose log has another record
    before that offset. `unreadable`: the partitions whose next records cannot be read.
    `disconnected`: whether a connection to a broker has ended since the previous fetch. `is_full`:
    whether there may be more records to fetch immediately.
    """

    records: dict[Source, list[Record]] = field(default_factory=dict)
    ends: dict[Source, int] = field(default_factory=dict)
    lost: list[Source] = field(default_factory=list)
    truncated: list[Source] = field(default_factory=list)
    unreadable: list[Source] = field(default_factory=list)
    disconnected: bool = False
    is_full: bool = False


class _ConsumerLog(ClientLog):
    """Only librdkafka's log says that an open connection has ended, and it does so before any
    record of the next connection. The error callback is not called then (librdkafka 2.16)."""

    def __init__(self) -> None:
        super().__init__(log)
        self.disconnected = False

    def log(self, level: int, form: str, facility: str, client: str, message: str) -> None:
        if facility == "FAIL" and "in state UP" in message:
            self.disconnected = True
        super().log(level, form, facility, client, message)


class RecordConsumer:
    """A Kafka consumer with a manual assignment. Only the ingest thread may use it."""

    def __init__(self, client_settings: Mapping[str, Any], topics: Iterable[str] = ()) -> None:
        """`client_settings`: librdkafka requires a `group.id`, and looks up its coordinator. The
        consumer joins no group and commits nothing. `topics`: those that may be assigned."""
        self._log = _ConsumerLog()
        settings = {"logger": self._log, **_SETTINGS}
        self._consumer = own(
            Consumer({"group.id": "queryable-unused", **client_settings, **settings})
        )
        self._assigned: set[Source] = set()
        # Damaged records also make librdkafka fetch from a random offset. The error for this comes
        # later, even after the next `assign` (librdkafka 2.16). This is the number of such errors
        # to ignore.
        self._damaged: dict[Source, int] = {}
        self._describe(topics)

    def assign(self, source: Source, position: int, leader_epoch: int) -> None:
        """Start or restart reading `source` at `position`.

        `leader_epoch`: of the last applied record; -1 if unknown. librdkafka uses it to detect log
        truncation (KIP-320).
        """
        self.unassign(source)
        topic, partition = source
        start = TopicPartition(topic, partition, position)
        if leader_epoch >= 0:
            start = TopicPartition(topic, partition, position, leader_epoch=leader_epoch)
        self._consumer.incremental_assign([start])
        self._assigned.add(source)

    def _describe(self, topics: Iterable[str]) -> None:
        """Connect, and fetch the metadata of topics.

        Otherwise librdkafka 2.16 fetches the metadata of a topic within a second after its first
        partition was assigned, and reads nothing until then. After a failure here, librdkafka must
        do this by itself, because this method blocks ingest.
        """
        try:
            for topic in topics:
                self._consumer.list_topics(topic, timeout=_METADATA_TIMEOUT)
        except KafkaException as e:
            log.debug("fetching the metadata of topics: %s", e)

    def unassign(self, source: Source) -> None:
        if source in self._assigned:
            self._consumer.incremental_unassign([TopicPartition(*source)])
            self._assigned.discard(source)

    def fetch(
        self, max_records: int, timeout: float, has_news: Callable[[], bool] = lambda: False
    ) -> Fetched:
        """Fetch up to `max_records` records, and wait at most `timeout` s for the first one. If
        `has_news()` is true, the caller has other work, and the wait ends within `_MAX_WAIT`."""
        messages = self._first(timeout, has_news)
        if messages:
            messages += self._consume(max_records - 1, _MORE_RECORDS_TIMEOUT)
        fetched = Fetched(is_full=len(messages) >= max_records)
        topic, partition, run = "", -1, []
        unreadable = fetched.unreadable
        for message in messages:
            error = message.error()
            if error is not None:
                self._add_event(fetched, message, error)
                continue
            if unreadable and _source(message) in unreadable:
                continue  # after damaged records, librdkafka may return anything
            # consecutive messages are mostly from the same partition
            if message.partition() != partition or message.topic() != topic:
                topic, partition = source = _source(message)
                run = fetched.records.setdefault(source, [])
            run.append(cast(Record, message))
        fetched.disconnected, self._log.disconnected = self._log.disconnected, False
        return fetched

    def _first(self, timeout: float, has_news: Callable[[], bool]) -> list[Message]:
        """The first message, which may be an event; none after the timeout."""
        until = time.monotonic() + timeout
        while True:
            # librdkafka waits forever if a timeout is negative
            left = max(0.0, until - time.monotonic())
            # consume() waits for the full number of records, and rounds its timeout down to ms
            messages = self._consume(1, min(left + 0.001, _MAX_WAIT))
            if messages or left <= _MAX_WAIT or has_news():
                return messages

    def _consume(self, max_records: int, timeout: float) -> list[Message]:
        try:
            return self._consumer.consume(max_records, timeout)
        except KafkaException as e:
            log.warning("consuming: %s", e)
            return []

    def _add_event(self, fetched: Fetched, message: Message, error: KafkaError) -> None:
        source, code = _source(message), error.code()
        if code == KafkaError._BAD_MSG:
            self._damaged[source] = _LATE_ERRORS
        if source in fetched.unreadable:
            return
        if code == KafkaError._PARTITION_EOF:
            fetched.ends[source] = cast(int, message.offset())
        elif code == KafkaError._AUTO_OFFSET_RESET and not self._is_of_damage(source):
            fetched.lost.append(source)
        elif code == KafkaError._LOG_TRUNCATION:
            fetched.truncated.append(source)
        else:
            _errors.warn(str(source), f"fetching {source[0]}-{source[1]}: {error}")
            fetched.unreadable.append(source)

    def _is_of_damage(self, source: Source) -> bool:
        left = self._damaged.pop(source, 0)
        if left > 1:
            self._damaged[source] = left - 1
        return left > 0

    def close(self) -> None:
        close(self._consumer)


def _source(message: Message) -> Source:
    return cast(Source, (message.topic(), message.partition()))


class SourceAssignments:
    """The consumer's assignment, derived from the open store partitions.

    `consumer` is replaced when ingest restarts.
    """

    def __init__(self, registry: PartitionRegistry) -> None:
        self.consumer: RecordConsumer | None = None
        self._registry = registry
        self._paused: dict[Source, float] = {}  # until when: s, monotonic

    def pause(self, source: Source) -> None:
        """Stop reading a topic partition for a moment, then read it from the same offset again."""
        assert self.consumer is not None
        self.consumer.unassign(source)
        self._paused[source] = time.monotonic() + _PAUSE

    @property
    def has_pauses(self) -> bool:
        return bool(self._paused)

    def end_pauses(self) -> None:
        """Read the partitions again whose pause is over."""
        now = time.monotonic()
        for source in [source for source, until in self._paused.items() if until <= now]:
            del self._paused[source]
            self.update(*source)

    def update(self, topic: str, partition: int) -> None:
        """Read this topic partition from the smallest offset that its store partitions need. Stop
        reading it if it has no store partitions."""
        assert self.consumer is not None
        store_partitions = self._registry.for_source(topic, partition)
        if not store_partitions:
            self.consumer.unassign((topic, partition))
            return
        first = min(store_partitions, key=lambda partition: partition.fetch_offset)
        self.consumer.assign((topic, partition), first.fetch_offset, first.metadata.leader_epoch)
