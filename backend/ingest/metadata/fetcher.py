"""Fetches metadata of topics from the brokers: ids, partition counts, and offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Set
from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec, TopicDescription

from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.kafka.clients import LIBRDKAFKA, Librdkafka
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.kafka.admin import EARLIEST, GRACE_S, LATEST, code_of, configs
from model.kafka.clients import close, own
from model.machine.clock import boot_time

log = logging.getLogger(__name__)

_CONFIG_EVERY = 300.0  # s between two reads of a topic's configuration
_Offsets = dict[int, Future[ListOffsetsResultInfo]]  # by partition
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


@dataclass(frozen=True)
class _Description:
    topic_id: str
    partitions: int
    without_leader: Set[int] = field(default=frozenset(), compare=False)


@dataclass(frozen=True)
class _RequestedOffsets:
    """Requests for the log starts, the log ends and the high watermarks of a topic's partitions.
    `known_starts` are not requested."""

    known_starts: Mapping[int, int] = field(default_factory=dict)  # by partition
    starts: _Offsets = field(default_factory=dict)
    ends: _Offsets = field(default_factory=dict)
    high_watermarks: _Offsets = field(default_factory=dict)

    def all(self) -> list[Future[ListOffsetsResultInfo]]:
        return [*self.starts.values(), *self.ends.values(), *self.high_watermarks.values()]


@dataclass(frozen=True)
class _FoundOffsets:
    """Offsets by partition. The three mappings have the same partitions."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    high_watermarks: Mapping[int, int]


class MetadataFetcher:
    """Fetches TopicMetadata, and keeps the latest. One thread fetches."""

    def __init__(
        self,
        client_settings: Mapping[str, Any],
        timeout: float,
        librdkafka: Librdkafka = LIBRDKAFKA,
    ) -> None:
        """`client_settings`: of librdkafka. `timeout`: of a request, in s."""
        # brokers see the id, and may have quotas for it; by default, librdkafka would log an error
        # each second
        own_settings = {"client.id": "queryable-metadata-poller", "log_level": 0}
        self._client_settings = {**client_settings, **own_settings}
        self._timeout = timeout
        self._librdkafka = librdkafka
        self.latest: dict[str, TopicMetadata] = {}
        """Topic -> metadata. Readers may keep the dict."""
        self._described: Set[str] = frozenset()  # topics that the last fetch has found
        # topic -> (id, delete.retention.ms, when it was read: s, monotonic)
        self._delete_retention: dict[str, tuple[str, int | None, float]] = {}
        self._log = RateLimitedLog(log)
        self._admin_client: AdminClient | None = None

    def reconnect(self) -> None:
        """Continue with a new client. Only the thread that fetches may call it."""
        client, self._admin_client = self._admin_client, None
        self._described = frozenset()
        if client is not None:
            close(client)

    @property
    def _admin(self) -> AdminClient:
        if self._admin_client is None:
            self._admin_client = own(self._librdkafka.admin(self._client_settings))
        return self._admin_client

    def fetch(self, watched: Mapping[str, Set[int] | None], with_known_starts: bool = True) -> bool:
        """Fetch the metadata of topics. `watched`: topic -> the partitions whose offsets are
        needed, None for all. `with_known_starts`: whether to fetch known log starts again. Returns
        whether the broker has answered. Raises KafkaException, TimeoutError.

        The offsets are requested together with the descriptions, based on what is already known of
        the topics: three requests one after the other would wake several threads each. If the
        client may not know the leaders of a topic, its offsets are requested after the
        descriptions, which name the leaders. Partitions without a leader are left out: while a
        request waits for leaders, any answer that names some may end the process (librdkafka 2.16,
        `query_leaders_async`).
        """
        # the answer may be newer, but not older
        fetched_at, fetched_boot_time = time.monotonic(), boot_time()
        before = {topic: self.latest[topic] for topic in self._described & self.latest.keys()}
        self._described = frozenset()
        describing = self._admin.describe_topics(
            TopicCollection(sorted(watched)), request_timeout=self._timeout
        )
        requested = self._request_offsets(
            {
                topic: _needed(watched[topic], metadata.partitions)
                for topic, metadata in before.items()
                if topic in watched
            },
            {} if with_known_starts else {topic: m.starts for topic, m in before.items()},
        )
        # wait for all at once, so that this thread is woken once; do not wait for the offsets of a
        # deleted topic
        self._wait(
            [
                *describing.values(),
                *(f for offsets in requested.values() for f in offsets.all()),
            ],
            FIRST_EXCEPTION,
        )
        described, has_answered = self._receive_descriptions(describing)
        self._described = {topic for topic, d in described.items() if not d.without_leader}
        # offsets that were requested early may be those of a topic that was deleted meanwhile
        requested |= self._request_offsets(
            {
                topic: _needed(watched[topic], description.partitions, description.without_leader)
                for topic, description in described.items()
                if topic not in requested or description != _description_of(before[topic])
            }
        )
        self._wait([future for topic in described for future in requested[topic].all()])
        for topic, description in described.items():
            offsets = self._receive_offsets(topic, requested[topic])
            try:
                delete_retention = self._delete_retention_of(topic, description.topic_id)
            except (KafkaException, TimeoutError) as e:
                self._log.warn(topic, f"topic {topic}: its configuration is not known: {e}")
                continue
            if offsets.starts or not _needed(watched[topic], description.partitions):
                metadata = TopicMetadata(
                    description.topic_id,
                    description.partitions,
                    offsets.starts,
                    offsets.ends,
                    delete_retention,
                    fetched_at,
                    fetched_boot_time,
                    high_watermarks=offsets.high_watermarks,
                )
                self.latest[topic] = metadata.after(self.latest.get(topic))
        return has_answered

    def _receive_descriptions(
        self, describing: Mapping[str, Future[TopicDescription]]
    ) -> tuple[dict[str, _Description], bool]:
        """The topics that exist, and whether the broker has answered for any topic."""
        self._wait(describing.values())
        described: dict[str, _Description] = {}
        has_answered = False
        for topic, future in describing.items():
            try:
                description = future.result(0)
            except (KafkaException, TimeoutError) as e:
                self._log.warn(topic, f"topic {topic}: {e}")
                has_answered = has_answered or _is_answer(e)
                continue
            has_answered = True
            without = frozenset(p.id for p in description.partitions if p.leader is None)
            if without:
                self._log.warn(topic, f"topic {topic}: no leader of {sorted(without)[:10]}")
            described[topic] = _Description(
                str(description.topic_id), len(description.partitions), without
            )
        return described, has_answered

    def _wait(self, futures: Collection[Future[Any]], until: str = ALL_COMPLETED) -> None:
        if not all(future.done() for future in futures):
            wait(futures, self._timeout + GRACE_S, until)

    def _request_offsets(
        self,
        needed: Mapping[str, Iterable[int]],
        known_starts: Mapping[str, Mapping[int, int]] | None = None,
    ) -> dict[str, _RequestedOffsets]:
        """Request the offsets of these partitions, without waiting. `known_starts`: topic ->
        partition -> log start; these are not requested."""
        known = known_starts or {}
        requested = {topic: _RequestedOffsets(known.get(topic, {})) for topic in needed}
        partitions = [
            TopicPartition(topic, number) for topic, numbers in needed.items() for number in numbers
        ]
        without_start = [p for p in partitions if p.partition not in known.get(p.topic, ())]
        if without_start:
            for partition, future in self._list_offsets(without_start, EARLIEST):
                requested[partition.topic].starts[partition.partition] = future
        if partitions:
            for partition, future in self._list_offsets(partitions, LATEST):
                requested[partition.topic].ends[partition.partition] = future
            for partition, future in self._list_offsets(
                partitions, LATEST, IsolationLevel.READ_UNCOMMITTED
            ):
                requested[partition.topic].high_watermarks[partition.partition] = future
        return requested

    def _list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        offset_spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Iterable[tuple[TopicPartition, Future[ListOffsetsResultInfo]]]:
        return self._admin.list_offsets(
            dict.fromkeys(partitions, offset_spec),
            isolation_level=isolation,
            request_timeout=self._timeout,
        ).items()

    def _receive_offsets(self, topic: str, requested: _RequestedOffsets) -> _FoundOffsets:
        """The offsets of the partitions for which all three are known."""
        ends = self._received(topic, requested.ends)
        # if a known start is after the end, the log was truncated
        known = {
            number: min(start, ends.get(number, start))
            for number, start in requested.known_starts.items()
        }
        starts = {**known, **self._received(topic, requested.starts)}
        high = self._received(topic, requested.high_watermarks)
        # a start that was fetched after its end may be greater than the end
        whole = [
            number
            for number, start in starts.items()
            if number in high and number in ends and start <= ends[number]
        ]
        return _FoundOffsets(
            *({n: by_number[n] for n in whole} for by_number in (starts, ends, high))
        )

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
        """`delete.retention.ms` of a topic; None if the topic is not compacted. It is read again
        after some minutes. If that fails, the known value is returned. Raises KafkaException,
        TimeoutError."""
        now = time.monotonic()
        id_, retention, read_at = self._delete_retention.get(topic, ("", None, 0.0))
        if id_ == topic_id and now - read_at < _CONFIG_EVERY:
            return retention
        try:
            config = configs(self._admin, [topic], self._timeout)[topic]
        except (KafkaException, TimeoutError):
            if id_ != topic_id:
                raise
        else:
            compacted = "compact" in config["cleanup.policy"]
            retention = int(config["delete.retention.ms"]) if compacted else None
        self._delete_retention[topic] = (topic_id, retention, now)
        return retention


def _needed(
    watched: Set[int] | None, count: int, without_leader: Set[int] = frozenset()
) -> list[int]:
    """The partitions whose offsets are fetched, for a topic with `count` partitions."""
    numbers = range(count) if watched is None else sorted(watched)
    return [number for number in numbers if number < count and number not in without_leader]


def _description_of(metadata: TopicMetadata) -> _Description:
    return _Description(metadata.topic_id, metadata.partitions)


def _is_answer(error: KafkaException | TimeoutError) -> bool:
    """Whether this error is an answer of the broker, and not a missing answer."""
    return isinstance(error, KafkaException) and code_of(error) not in _NO_ANSWER
