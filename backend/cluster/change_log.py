"""A topic of changes, such as which version of each view is current.

Each instance reads the whole topic, and goes on reading it: a change takes effect where its record
is read. So the order of the records decides, not the instance that writes them
(`model.changes.records`).
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from backend.kafka.clients import LIBRDKAFKA, Librdkafka, is_final
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.changes.records import S, fold
from model.kafka.admin import code_of, configs, create_topic, describe, reason_of, results
from model.kafka.clients import closing, own
from model.kafka.headers import headers_of
from model.problems import Conflict, Unavailable

log = logging.getLogger(__name__)

_ID = "id"  # the header that identifies a record to its writer
_POLL = 0.2  # s
_CHECK_EVERY = 10.0  # s between two comparisons with the end of the topic
_CHECK_ID_EVERY = 60.0  # s between two comparisons with the id of the topic
# all records count: compaction or retention could lose the current state
_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True)
class Subject(Generic[S]):
    """What a topic of changes is about. Texts are parts of messages."""

    topic: str
    encode: Callable[[str, S, int], bytes]
    """`encode(name, state, at_ms)`: the value of a record."""
    decode: Callable[[bytes | str | None], tuple[str, S]]
    """The inverse of `encode`; raises ValueError."""
    noun: str
    """The name of the thread and the client, such as "versions"."""
    unknown: str
    """The problem's code if the topic cannot be read."""
    conflict: str
    """The problem's code if another change came first."""
    unconfirmed: str
    """The problem's code if Kafka has not confirmed a change."""
    decides: str
    """What the topic decides, such as "which version of a view is current"."""
    name_of: Callable[[str], str]
    """`name_of(name)`: the text for what changes, such as "the versions of view orders"."""


class ChangeLog(Generic[S]):
    """Reads and writes the topic. Any thread may call `change`; one thread reads."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        group: str,
        timeout: float,
        subject: Subject[S],
        on_change: Callable[[Mapping[str, S]], None],
        first: tuple[str, S] | None = None,
        librdkafka: Librdkafka = LIBRDKAFKA,
        retry_after: float = 1.0,
    ) -> None:
        """`client_settings`: for librdkafka. `timeout` (s): of one request. `on_change(states)` is
        called when the topic has been read for the first time, and after each change. `first`: the
        name and state to write if the topic has no record of the name. `retry_after`: s."""
        self.topic = subject.topic
        self._client_settings = {**client_settings, "client.id": f"queryable-{subject.noun}"}
        self._group = group  # no offset is committed; the client needs a name
        self._timeout = timeout
        self._subject = subject
        self._on_change = on_change
        self._first = first
        self._librdkafka = librdkafka
        self._retry_after = retry_after
        self._states: Mapping[str, S] = {}
        self._known = threading.Event()
        self._is_live = False  # the thread has read the topic to its end, and goes on reading
        self._stop = threading.Event()
        self._waiting: dict[bytes, _Outcome] = {}  # by the id of a record
        self._producer: Producer | None = None
        self._writing = threading.Lock()
        self._log = RateLimitedLog(log)
        self._thread = threading.Thread(target=self._run, name=subject.noun, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, within some polls."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._timeout + 1)

    def exists(self, timeout: float) -> bool | None:
        """Whether the topic exists; None if this is unknown after `timeout` s plus the time-out of
        one request. A topic that this instance may not describe counts as missing."""
        end = time.monotonic() + timeout
        while True:
            try:
                with self._admin() as admin:
                    return self._topic_id(admin) is not None
            except KafkaException as e:
                if is_final(e.args[0]):
                    return False
            except TimeoutError:
                pass
            if time.monotonic() > end or self._stop.wait(_POLL):
                return None

    def _admin(self) -> AbstractContextManager[AdminClient]:
        """A client for one task: after an outage, a client can wait for the controller forever."""
        return closing(self._librdkafka.admin({**self._client_settings, "log_level": 0}))

    def _topic_id(self, admin: AdminClient) -> str | None:
        """The id of the topic; None if it does not exist. Raises KafkaException, TimeoutError."""
        try:
            return str(describe(admin, [self.topic], self._timeout)[self.topic].topic_id)
        except KafkaException as e:
            if code_of(e) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise

    def wait_until_known(self, timeout: float) -> bool:
        """Whether the topic has been read to its end within `timeout` s."""
        return self._known.wait(timeout)

    def change(self, name: str, state: S) -> None:
        """Write the new state of a name, and return when it is in effect here.

        Raises Conflict if another change of the name came first, Unavailable if it is not known
        whether the change was made.
        """
        if not self._is_live:
            raise Unavailable(
                self._subject.unknown,
                f"Topic {self.topic} cannot be read now, so nothing was changed.",
            )
        id_ = uuid.uuid4().bytes
        outcome = self._waiting[id_] = _Outcome()
        try:
            self._write(name, state, id_)
            if not outcome.is_known.wait(self._timeout):
                raise self._unconfirmed(name, "the record has not been read back")
        finally:
            self._waiting.pop(id_, None)
        if not outcome.counts:
            raise Conflict(
                self._subject.conflict,
                f"Another client changed {self._subject.name_of(name)} at the same time. Look at "
                "the new state, and decide again.",
            )

    def delete_topic(self, topic: str) -> None:
        """Delete the topic of a dropped version. Raises Unavailable."""
        try:
            with self._admin() as admin:
                results(
                    admin.delete_topics([topic], operation_timeout=self._timeout), self._timeout
                )
        except (KafkaException, TimeoutError) as e:
            raise Unavailable(
                "topic-not-deleted",
                f"The version is dropped, but topic {topic} could not be deleted: {reason_of(e)}.",
            ) from None

    def _write(self, name: str, state: S, id_: bytes) -> None:
        value = self._subject.encode(name, state, time.time_ns() // 1_000_000)
        errors: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                errors.append(error)

        with self._writing:
            if self._producer is None:
                settings = {
                    **self._client_settings,
                    "acks": "all",
                    "linger.ms": 0,
                    "delivery.timeout.ms": round(self._timeout * 1000),
                    "log_level": 0,
                }
                self._producer = own(self._librdkafka.producer(settings))
            self._producer.produce(
                self.topic,
                value,
                name,
                partition=0,
                headers={_ID: id_},
                on_delivery=on_delivery,
            )
            left = self._producer.flush(self._timeout)
        if errors or left:
            why = errors[0].str() if errors else "the broker does not answer"
            raise self._unconfirmed(name, why)

    def _unconfirmed(self, name: str, why: str) -> Unavailable:
        return Unavailable(
            self._subject.unconfirmed,
            f"It is not known whether the change was made: {why}. Look at "
            f"{self._subject.name_of(name)}.",
        )

    # the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._admin() as admin:
                    exists = self._topic_exists(admin)
                if exists:
                    self._read()
                else:
                    self._publish(_Reading(self._states))  # perhaps nothing was changed yet
            except Exception as e:  # the thread must survive any error of the broker
                unexpected = None if isinstance(e, KafkaException | Unavailable) else e
                self._log.warn("read", f"cannot read topic {self.topic}: {e}", unexpected)
            self._stop.wait(self._retry_after)

    def _topic_exists(self, admin: AdminClient) -> bool:
        """Whether the topic exists; creates it if it does not. False if that is refused. Raises
        KafkaException, TimeoutError."""
        if self._topic_id(admin) is not None:
            self._check_retention(admin)
            return True
        try:
            if create_topic(admin, self.topic, 1, _CONFIG, self._timeout):
                log.info("created topic %s: it says %s", self.topic, self._subject.decides)
        except KafkaException as e:
            if not is_final(e.args[0]):
                raise
            config = " ".join(f"--config {name}={value}" for name, value in _CONFIG.items())
            self._log.warn(
                "create",
                f"cannot create topic {self.topic}: {reason_of(e)}. Without it, no one can "
                f"change {self._subject.decides}. Create it: kafka-topics.sh --create "
                f"--topic {self.topic} --partitions 1 {config}",
            )
            return False
        return True

    def _check_retention(self, admin: AdminClient) -> None:
        try:
            config = configs(admin, [self.topic], self._timeout)[self.topic]
        except (KafkaException, TimeoutError):
            return  # perhaps this instance may not read the configuration
        wrong = [f"{name}={value}" for name, value in _CONFIG.items() if config[name] != value]
        if wrong:
            log.error(
                "topic %s may lose records, and with them %s. Set %s",
                self.topic,
                self._subject.decides,
                ", ".join(wrong),
            )

    def _read(self) -> None:
        """Read the topic from its start, until stopped or failed."""
        settings = {
            **self._client_settings,
            "group.id": self._group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.error.backoff.ms": 50,
            "log_level": 0,
        }
        with self._admin() as admin:
            reading: _Reading[S] = _Reading(topic_id=self._topic_id(admin))
        try:
            with closing(self._librdkafka.consumer(settings)) as consumer:
                self._read_with(consumer, reading)
        finally:
            self._is_live = False

    def _read_with(self, consumer: Consumer, reading: _Reading[S]) -> None:
        consumer.assign([Partition(self.topic, 0, OFFSET_BEGINNING)])
        while not self._stop.is_set():
            message = consumer.poll(_POLL)
            if message is None:
                self._check_position(reading, consumer)
                self._check_id(reading)
                continue
            error, offset = message.error(), message.offset() or 0
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if offset < reading.position:
                # instances that start from now on do not know the changes that are gone
                raise Unavailable(
                    self._subject.unknown,
                    "it has lost its last records, or was created again: it is read again",
                )
            if error is None:
                self._apply(reading, message)
                reading.position = offset + 1
            else:
                self._is_live = True
                reading.position = offset  # also if the topic has lost its first records
            if self._is_live:
                self._publish(reading)
                self._write_first(reading)

    def _check_position(self, reading: _Reading[S], consumer: Consumer) -> None:
        """Raises Unavailable if the topic has records after the position, and none was fetched
        since the previous check: see backend.ingest.stalled_fetch."""
        now = time.monotonic()
        if now - reading.checked_at < _CHECK_EVERY:
            return
        reading.checked_at = now
        behind_at, reading.behind_at = reading.behind_at, None
        try:
            offsets = consumer.get_watermark_offsets(Partition(self.topic, 0), self._timeout)
        except KafkaException:
            return  # the broker does not answer
        if offsets is None or offsets[1] <= reading.position:
            return
        if behind_at == reading.position:
            raise Unavailable(
                self._subject.unknown,
                f"it has records after offset {behind_at}, but none is fetched",
            )
        reading.behind_at = reading.position

    def _check_id(self, reading: _Reading[S]) -> None:
        """Raises Unavailable if the topic was created again. Its end does not always show this: the
        new topic may have as many records."""
        if time.monotonic() - reading.id_checked_at < _CHECK_ID_EVERY:
            return
        reading.id_checked_at = time.monotonic()
        with suppress(KafkaException, TimeoutError):  # the broker does not answer
            with self._admin() as admin:
                topic_id = self._topic_id(admin)
            reading.topic_id = reading.topic_id or topic_id  # None: it had just been created
            if topic_id != reading.topic_id:
                raise Unavailable(self._subject.unknown, "it was created again: it is read again")

    def _write_first(self, reading: _Reading[S]) -> None:
        """Writes the first record, if there is none. If several instances write it, only one of
        their records counts."""
        if self._first is not None and self._first[0] not in reading.states:
            log.info("the first record of topic %s: %s", self.topic, self._first)
            self._write(*self._first, uuid.uuid4().bytes)

    def _apply(self, reading: _Reading[S], message: Message) -> None:
        try:
            name, state = self._subject.decode(message.value())
        except ValueError as e:
            self._log.warn("record", f"topic {self.topic}, offset {message.offset()}: {e}")
            return
        after = fold(reading.states, name, state)
        reading.states = reading.states if after is None else after
        for header, value in headers_of(message) or ():
            if header == _ID and value in self._waiting:
                # the client may send a record twice: the second one does not count
                reading.outcomes.setdefault(value, after is not None)

    def _publish(self, reading: _Reading[S]) -> None:
        """Makes the states known, then the outcomes of this instance's own changes."""
        if not self._known.is_set() or reading.states != self._states:
            self._on_change(reading.states)
            # only after the change has taken effect: if `on_change` fails, it is called again
            self._states = reading.states
            self._known.set()
        for id_, counts in reading.outcomes.items():
            outcome = self._waiting.get(id_)
            if outcome is not None and not outcome.is_known.is_set():
                outcome.counts = counts
                outcome.is_known.set()
        reading.outcomes.clear()


@dataclass
class _Outcome:
    """Whether a record of this instance counts, once it has been read."""

    is_known: threading.Event = field(default_factory=threading.Event)
    counts: bool = False


@dataclass
class _Reading(Generic[S]):
    """The states after the records read so far, and the outcomes of this instance's own records."""

    states: Mapping[str, S] = field(default_factory=dict)
    outcomes: dict[bytes, bool] = field(default_factory=dict)
    topic_id: str | None = None
    position: int = 0  # of the next record
    checked_at: float = field(default_factory=time.monotonic)  # s, monotonic
    behind_at: int | None = None  # the position, if the last check has found later records
    id_checked_at: float = field(default_factory=time.monotonic)  # s, monotonic
