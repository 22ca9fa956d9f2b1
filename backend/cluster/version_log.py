"""The deployment's version topic: which version of each view is current.

Each instance reads the whole topic, and goes on reading it: a change takes effect where its record
is read. So the order of the records decides, not the instance that writes them (`model.versions`).
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from backend.rate_limited_log import RateLimitedLog
from model.problems import Conflict, Unavailable
from model.versions import States, VersionState, decode_record, encode_record, fold

log = logging.getLogger(__name__)

SUFFIX = "-versions"
_ID = "id"  # the header that identifies a record to its writer
_POLL = 0.2  # s
_RETRY_AFTER = 1.0  # s
# all records count: compaction or retention could lose the current version
_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


class VersionLog:
    """Reads and writes the topic. Any thread may call `change`; one thread reads."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        application_id: str,
        timeout: float,
        on_change: Callable[[States], None],
    ) -> None:
        """`client_settings`: of librdkafka. `timeout` (s): of a request. `on_change(states)` is
        called when the topic has been read for the first time, and after each change."""
        self.topic = f"{application_id}{SUFFIX}"
        self._client_settings = {**client_settings, "client.id": "queryable-versions"}
        self._group = application_id  # no offset is committed; the client needs a name
        self._timeout = timeout
        self._on_change = on_change
        self._states: States = {}
        self._known = threading.Event()
        self._is_live = False  # it has read the topic to its end, and goes on reading
        self._stop = threading.Event()
        self._waiting: dict[bytes, _Outcome] = {}  # by the id of a record
        self._producer: Producer | None = None
        self._writing = threading.Lock()
        self._log = RateLimitedLog(log)
        self._thread = threading.Thread(target=self._run, name="versions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, within some polls."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._timeout + 1)

    def exists(self) -> bool:
        """Whether the topic exists, as far as the broker says."""
        try:
            return self._is_described(self._admin())
        except (KafkaException, TimeoutError):
            return False

    def _admin(self) -> AdminClient:
        return AdminClient({**self._client_settings, "log_level": 0})

    def _is_described(self, admin: AdminClient) -> bool:
        """Whether the topic exists. Raises KafkaException, TimeoutError. Other requests for the
        metadata of a topic may create it."""
        topics = TopicCollection([self.topic])
        [future] = admin.describe_topics(topics, request_timeout=self._timeout).values()
        try:
            future.result(self._timeout + 1)
        except KafkaException as e:
            if _code_of(e) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise
        return True

    def wait_until_known(self, timeout: float) -> bool:
        """Whether the topic has been read to its end within `timeout` s."""
        return self._known.wait(timeout)

    def change(self, base: str, state: VersionState) -> None:
        """Write the new state of a view, and return when it is in effect here.

        Raises Conflict if another change of the view came first, Unavailable if it is not known
        whether the change was made.
        """
        if not self._is_live:
            raise Unavailable(
                "version-unknown",
                f"Topic {self.topic} cannot be read now, so nothing was changed.",
            )
        id_ = uuid.uuid4().bytes
        outcome = self._waiting[id_] = _Outcome()
        try:
            self._write(base, encode_record(base, state, time.time_ns() // 1_000_000), id_)
            if not outcome.is_known.wait(self._timeout):
                raise _unconfirmed("the record has not been read back")
        finally:
            self._waiting.pop(id_, None)
        if not outcome.counts:
            raise Conflict(
                "version-conflict",
                f"The versions of view {base} were changed by someone else at the same time. "
                "Look at them, and decide again.",
            )

    def delete_topic(self, topic: str) -> None:
        """Delete the topic of a dropped version. Raises Unavailable."""
        admin = self._admin()
        [deleted] = admin.delete_topics([topic], operation_timeout=self._timeout).values()
        try:
            deleted.result(self._timeout + 1)
        except (KafkaException, TimeoutError) as e:
            raise Unavailable(
                "topic-not-deleted",
                f"The version is dropped, but topic {topic} could not be deleted: {e}.",
            ) from None

    def _write(self, base: str, value: bytes, id_: bytes) -> None:
        errors: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                errors.append(error)

        with self._writing:
            if self._producer is None:
                self._producer = Producer(
                    {
                        **self._client_settings,
                        "acks": "all",
                        "linger.ms": 0,
                        "delivery.timeout.ms": round(self._timeout * 1000),
                        "log_level": 0,
                    }
                )
            self._producer.produce(
                self.topic,
                value,
                base,
                partition=0,
                headers={_ID: id_},
                on_delivery=on_delivery,
            )
            left = self._producer.flush(self._timeout)
        if errors or left:
            raise _unconfirmed(errors[0].str() if errors else "the broker does not answer")

    # the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if self._topic_exists():
                    self._read()
                else:
                    self._publish(_Reading(self._states))  # perhaps nothing was changed yet
            except Exception as e:  # the thread must survive any error of the broker
                is_expected = isinstance(e, KafkaException)
                self._log.warn(
                    "read", f"cannot read topic {self.topic}: {e}", None if is_expected else e
                )
            self._stop.wait(_RETRY_AFTER)

    def _topic_exists(self) -> bool:
        """Whether the topic exists; creates it if it does not. Raises KafkaException."""
        admin = self._admin()
        if self._is_described(admin):
            self._check_retention(admin)
            return True
        [created] = admin.create_topics([NewTopic(self.topic, 1, -1, config=_CONFIG)]).values()
        try:
            created.result(self._timeout + 1)
            log.info("created topic %s, for the current versions of views", self.topic)
        except KafkaException as e:
            if _code_of(e) == KafkaError.TOPIC_ALREADY_EXISTS:
                return True
            config = " ".join(f"--config {name}={value}" for name, value in _CONFIG.items())
            self._log.warn(
                "create",
                f"cannot create topic {self.topic}: {e.args[0].str()}. Without it, no other "
                f"version of a view can become current. Create it: kafka-topics.sh --create "
                f"--topic {self.topic} --partitions 1 {config}",
            )
            return False
        return True

    def _check_retention(self, admin: AdminClient) -> None:
        [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, self.topic)]).values()
        try:
            config = future.result(self._timeout + 1)
        except (KafkaException, TimeoutError):
            return  # perhaps it is not allowed
        wrong = [
            f"{name}={value}" for name, value in _CONFIG.items() if config[name].value != value
        ]
        if wrong:
            log.error(
                "topic %s may lose records, and with them which version of a view is current. Set "
                "%s",
                self.topic,
                ", ".join(wrong),
            )

    def _read(self) -> None:
        """Read the topic from its start, until stopped or failed."""
        consumer = Consumer(
            {
                **self._client_settings,
                "group.id": self._group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "fetch.error.backoff.ms": 50,
                "log_level": 0,
            }
        )
        reading = _Reading()
        try:
            consumer.assign([Partition(self.topic, 0, OFFSET_BEGINNING)])
            while not self._stop.is_set():
                message = consumer.poll(_POLL)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self._apply(reading, message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._is_live = True
                else:
                    raise KafkaException(error)
                if self._is_live:
                    self._publish(reading)
        finally:
            self._is_live = False
            consumer.close()

    def _apply(self, reading: _Reading, message: Message) -> None:
        try:
            base, state = decode_record(message.value())
        except ValueError as e:
            self._log.warn("record", f"topic {self.topic}, offset {message.offset()}: {e}")
            return
        after = fold(reading.states, base, state)
        reading.states = reading.states if after is None else after
        headers: Any = message.headers() or ()
        for name, value in headers:
            if name == _ID and value in self._waiting:
                # the client may send a record twice: the second one does not count
                reading.outcomes.setdefault(value, after is not None)

    def _publish(self, reading: _Reading) -> None:
        """Makes the states known, then the outcomes of this instance's own changes."""
        if not self._known.is_set() or reading.states != self._states:
            self._on_change(reading.states)
            # after it has taken effect: an error repeats it
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
class _Reading:
    """The states after the records read so far, and the outcomes of own records among them."""

    states: States = field(default_factory=dict)
    outcomes: dict[bytes, bool] = field(default_factory=dict)


def _code_of(error: KafkaException) -> int:
    code: int = error.args[0].code()
    return code


def _unconfirmed(why: str) -> Unavailable:
    return Unavailable(
        "version-unconfirmed",
        f"It is not known whether the change was made: {why}. Look at the view's versions.",
    )
