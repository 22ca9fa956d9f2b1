"""Polls the broker for topic metadata: log ends and starts, topic ids, partition counts.

One thread polls. Lag and staleness are relative to the last poll. Ingest detects recreated topics,
truncated logs and added partitions from this metadata. Offsets are fetched for the partitions of
this instance only: a topic may have thousands.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import Future, wait
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
    ResourceType,
)

from backend.ingest.lifecycle.missed_tombstones import boot_time, longest_poll_interval
from backend.ingest.topic_metadata import TopicMetadata
from backend.rate_limited_log import RateLimitedLog

log = logging.getLogger(__name__)

_FORGET_AFTER = 2.0  # s for which a topic is not watched
_NEW_CLIENT_AFTER = 15.0  # s without an answer
_GRACE = 1.0  # s after a request's timeout, in which the client has to report it
_CONFIG_EVERY = 300.0  # s between two looks at the configuration of a topic
_Offsets = dict[int, Future[ListOffsetsResultInfo]]  # by partition
_Requested = dict[str, tuple[_Offsets, _Offsets]]  # by topic: log starts and log ends
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class MetadataPoller:
    """Fetches TopicMetadata of the watched topics every `interval` s, or at once on request. A
    topic with a short `delete.retention.ms` makes the interval shorter."""

    def __init__(self, client_settings: Mapping[str, Any], interval: float, timeout: float) -> None:
        # librdkafka would log a connection error every second
        own = {"client.id": "queryable-metadata-poller", "log_level": 0}
        self._client_settings = {**client_settings, **own}
        self._admin = AdminClient(self._client_settings)
        self._answered_at = time.monotonic()
        self._interval = interval
        self._timeout = timeout
        self._watched: Mapping[str, Set[int]] = {}
        self._unwatched: dict[str, float] = {}  # topic -> since when: s, monotonic
        self.latest: dict[str, TopicMetadata] = {}
        """By topic, of those watched. Readers may keep the dict."""
        self.on_poll: Callable[[], None] = lambda: None
        """Called after each poll that the broker has answered."""
        self._described: Set[str] = frozenset()  # topics that the last poll has found
        # topic -> (id, delete.retention.ms, when it was read: s, monotonic)
        self._delete_retention: dict[str, tuple[str, int | None, float]] = {}
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._polled = threading.Condition()
        self._polled_since = 0.0  # start of the last successful poll
        self._log = RateLimitedLog(log)
        self._thread = threading.Thread(target=self._run, name="metadata-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, within a request's timeout."""
        self._stop.set()
        self._wake.set()
        self._thread.join(self._timeout + _GRACE)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def watch(self, partitions: Mapping[str, Set[int]]) -> None:
        """Set the topics to poll, and their partitions whose offsets are needed; if they change,
        poll at once. What is known of other topics is forgotten after some seconds."""
        if partitions != self._watched:
            self._watched = partitions
            self._wake.set()

    def get(self, topic: str) -> TopicMetadata | None:
        """The latest metadata; None if there is none yet, or the topic is not watched."""
        return self.latest.get(topic)

    def refresh(self) -> None:
        """Poll as soon as possible, without waiting for it."""
        self._wake.set()

    def fresh(self, topic: str) -> TopicMetadata | None:
        """Poll and return the new metadata, or the latest known if the broker does not answer.

        Blocks for at most one request's timeout. Threads that answer reads must not call it.
        """
        since = time.monotonic()
        self._wake.set()
        with self._polled:
            self._polled.wait_for(lambda: self._polled_since >= since, self._timeout)
        return self.latest.get(topic)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._seconds_to_next_poll())
            self._wake.clear()
            watched = self._watched
            self._forget(self.latest.keys() - watched.keys())
            if not watched or self._stop.is_set():
                continue
            started_at = time.monotonic()
            try:
                if self.poll(watched):
                    self._answered_at = time.monotonic()
                    self.on_poll()
                with self._polled:
                    self._polled_since = started_at
                    self._polled.notify_all()
            except Exception as e:  # the thread must survive any error of the broker
                self._log.warn("*", f"the broker does not answer: {e}")
            if time.monotonic() - self._answered_at > _NEW_CLIENT_AFTER:
                # after an outage, a client can wait for the controller for ever
                self._admin = AdminClient(self._client_settings)
                self._answered_at = time.monotonic()

    def _forget(self, topics: Set[str]) -> None:
        """Topics that are not watched: they may be deleted, or get more partitions. Only after a
        while, because stores may not be closed yet."""
        now = time.monotonic()
        self._unwatched = {topic: self._unwatched.get(topic, now) for topic in topics}
        for topic, since in self._unwatched.items():
            if now - since > _FORGET_AFTER:
                del self.latest[topic]

    def _seconds_to_next_poll(self) -> float:
        retentions = [each.delete_retention for each in self.latest.values()]
        needed = [longest_poll_interval(each) for each in retentions if each is not None]
        needed += [_FORGET_AFTER] if self._unwatched else []
        return min([self._interval, *needed])

    def poll(self, watched: Mapping[str, Set[int] | None]) -> bool:
        """Poll the broker in the caller's thread. `watched`: topic -> the partitions whose offsets
        are needed, None for all. Whether the broker has answered. Raises KafkaException,
        TimeoutError."""
        # the answer may be newer, but not older
        fetched_at, fetched_boot_time = time.monotonic(), boot_time()
        described_before, self._described = self._described, frozenset()
        described = self._admin.describe_topics(
            TopicCollection(sorted(watched)), request_timeout=self._timeout
        )
        # The offsets are requested at the same time, by what is known of the topics: three requests
        # one after the other would wake several threads each.
        before = {
            topic: self.latest[topic]
            for topic in described_before & watched.keys()
            if topic in self.latest
        }
        early = self._request_offsets(
            {topic: _needed(watched[topic], each.partitions) for topic, each in before.items()}
        )
        wait(described.values(), self._timeout + _GRACE)
        ids: dict[str, str] = {}
        counts: dict[str, int] = {}
        has_answered = False
        for topic, future in described.items():
            try:
                description = future.result(0)
            except (KafkaException, TimeoutError) as e:
                self._log.warn(topic, f"topic {topic}: {e}")
                has_answered = has_answered or _is_answer(e)
                continue
            has_answered = True
            ids[topic] = str(description.topic_id)
            counts[topic] = len(description.partitions)
        self._described = ids.keys()
        needed = {topic: _needed(watched[topic], count) for topic, count in counts.items()}
        # offsets that were requested early may be those of a topic that was deleted meanwhile
        late = self._request_offsets(
            {
                topic: partitions
                for topic, partitions in needed.items()
                if topic not in before
                or (before[topic].topic_id, before[topic].partitions) != (ids[topic], counts[topic])
            }
        )
        requested = {**early, **late}
        # one wait for all: one after the other would wake this thread for each
        wait(
            [each for topic in ids for some in requested[topic] for each in some.values()],
            self._timeout + _GRACE,
        )
        starts = {topic: self._received(topic, requested[topic][0]) for topic in ids}
        ends = {topic: self._received(topic, requested[topic][1]) for topic in ids}
        for topic, topic_id in ids.items():
            # a start that is newer than its end may be greater
            has_both = {
                number
                for number in starts[topic].keys() & ends[topic].keys()
                if starts[topic][number] <= ends[topic][number]
            }
            try:
                delete_retention = self._delete_retention_of(topic, topic_id)
            except (KafkaException, TimeoutError) as e:
                self._log.warn(topic, f"topic {topic}: its configuration is not known: {e}")
                continue
            if has_both or not needed[topic]:
                found = TopicMetadata(
                    topic_id=topic_id,
                    partitions=counts[topic],
                    starts={number: starts[topic][number] for number in has_both},
                    ends={number: ends[topic][number] for number in has_both},
                    delete_retention=delete_retention,
                    fetched_at=fetched_at,
                    fetched_boot_time=fetched_boot_time,
                )
                self.latest[topic] = found.after(self.latest.get(topic))
        return has_answered

    def _request_offsets(self, needed: Mapping[str, Iterable[int]]) -> _Requested:
        """Request the log starts and the log ends of these partitions, without waiting."""
        requested: _Requested = {topic: ({}, {}) for topic in needed}
        partitions = [
            TopicPartition(topic, number) for topic, numbers in needed.items() for number in numbers
        ]
        if not partitions:
            return requested
        for which, spec in enumerate((OffsetSpec.earliest(), OffsetSpec.latest())):  # type: ignore[no-untyped-call]
            futures = self._admin.list_offsets(
                dict.fromkeys(partitions, spec),
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=self._timeout,
            )
            for partition, future in futures.items():
                requested[partition.topic][which][partition.partition] = future
        return requested

    def _received(self, topic: str, requested: _Offsets) -> dict[int, int]:
        """The offsets by partition, without those that the broker does not return."""
        offsets: dict[int, int] = {}
        for number, future in requested.items():
            name = f"{topic}-{number}"
            try:
                offset = future.result(0).offset
            except (KafkaException, TimeoutError) as e:
                self._log.warn(topic, f"{name}: {e}")
                continue
            if offset < 0:  # OFFSET_INVALID; as a log end, it would look like truncation
                self._log.warn(topic, f"{name}: the broker returned no offset")
                continue
            offsets[number] = offset
        return offsets

    def _delete_retention_of(self, topic: str, topic_id: str) -> int | None:
        """It is read again after some minutes. If that fails, the known one counts. Raises
        KafkaException, TimeoutError."""
        now = time.monotonic()
        id_, retention, read_at = self._delete_retention.get(topic, ("", None, 0.0))
        if id_ == topic_id and now - read_at < _CONFIG_EVERY:
            return retention
        resource = ConfigResource(ResourceType.TOPIC, topic)
        [future] = self._admin.describe_configs([resource]).values()
        try:
            config = future.result(self._timeout + _GRACE)
        except (KafkaException, TimeoutError):
            if id_ != topic_id:
                raise
        else:
            compacted = "compact" in (config["cleanup.policy"].value or "")
            retention = int(config["delete.retention.ms"].value) if compacted else None
        self._delete_retention[topic] = (topic_id, retention, now)
        return retention


def _needed(watched: Set[int] | None, count: int) -> list[int]:
    """The partitions of a topic with `count` partitions whose offsets are fetched."""
    return [number for number in range(count) if watched is None or number in watched]


def _is_answer(error: KafkaException | TimeoutError) -> bool:
    """Whether the broker has refused, and not been silent."""
    return isinstance(error, KafkaException) and error.args[0].code() not in _NO_ANSWER
