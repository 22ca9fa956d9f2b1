"""Polls the broker for topic metadata: log ends and starts, topic ids, partition counts.

One thread. Lag and staleness are measured against the last poll. Recreated topics, truncated logs
and added partitions are detected from this metadata.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from backend.ingest.topic_metadata import TopicMetadata

log = logging.getLogger(__name__)

_LOG_EVERY = 30.0  # s between two log lines about the same problem


class MetadataPoller:
    """Fetches TopicMetadata of the watched topics every `interval` s, or at once on request."""

    def __init__(self, client_settings: Mapping[str, Any], interval: float, timeout: float) -> None:
        self._admin = AdminClient(
            # librdkafka would log every second what `_warn` logs every 30 s
            {**client_settings, "client.id": "queryable-metadata-poller", "log_level": 0}
        )
        self._interval = interval
        self._timeout = timeout
        self._topics: frozenset[str] = frozenset()
        self.latest: dict[str, TopicMetadata] = {}  # by topic; readers may keep the dict
        self._delete_retention: dict[str, tuple[str, int | None]] = {}  # topic -> (id, ms)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._polled = threading.Condition()
        self._polled_since = 0.0  # when the last successful poll began
        self._warned_at: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="metadata-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, within a request's timeout."""
        self._stop.set()
        self._wake.set()
        self._thread.join(self._timeout + 1)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def watch(self, topics: frozenset[str]) -> None:
        """Set the topics to poll; if they change, poll at once."""
        if topics != self._topics:
            self._topics = topics
            self._wake.set()

    def get(self, topic: str) -> TopicMetadata | None:
        """The latest metadata; None before the first answer."""
        return self.latest.get(topic)

    def refresh(self) -> None:
        """Poll as soon as possible, without waiting for it."""
        self._wake.set()

    def fresh(self, topic: str) -> TopicMetadata | None:
        """Poll and return the new metadata; the latest known if the broker does not answer.

        Blocks for up to one request's timeout: not for threads that answer reads.
        """
        since = time.monotonic()
        self._wake.set()
        with self._polled:
            self._polled.wait_for(lambda: self._polled_since >= since, self._timeout)
        return self.latest.get(topic)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._interval)
            self._wake.clear()
            topics = self._topics
            if not topics or self._stop.is_set():
                continue
            began = time.monotonic()
            try:
                self.poll(sorted(topics))
                with self._polled:
                    self._polled_since = began
                    self._polled.notify_all()
            except Exception as e:  # the thread must survive any error of the broker
                self._warn("*", f"the broker does not answer: {e}")

    def poll(self, topics: list[str]) -> None:
        """Poll the broker in the caller's thread; KafkaException, TimeoutError."""
        described = self._admin.describe_topics(
            TopicCollection(topics), request_timeout=self._timeout
        )
        ids: dict[str, str] = {}
        counts: dict[str, int] = {}
        for topic, future in described.items():
            try:
                description = future.result(self._timeout + 1)
            except (KafkaException, TimeoutError) as e:
                self._warn(topic, f"topic {topic}: {e}")
                continue
            ids[topic] = str(description.topic_id)
            counts[topic] = len(description.partitions)
        fetched_at = time.monotonic()
        starts = self._offsets(counts, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._offsets(counts, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        for topic, topic_id in ids.items():
            if len(starts[topic]) == len(ends[topic]) == counts[topic]:
                self.latest[topic] = TopicMetadata(
                    topic_id=topic_id,
                    partitions=counts[topic],
                    starts=starts[topic],
                    ends=ends[topic],
                    delete_retention=self._delete_retention_of(topic, topic_id),
                    fetched_at=fetched_at,
                )

    def _offsets(self, counts: Mapping[str, int], spec: OffsetSpec) -> dict[str, dict[int, int]]:
        asked = {
            TopicPartition(topic, partition): spec
            for topic, count in counts.items()
            for partition in range(count)
        }
        found: dict[str, dict[int, int]] = {topic: {} for topic in counts}
        if not asked:
            return found
        answers = self._admin.list_offsets(
            asked,
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout,
        )
        for partition, future in answers.items():
            where = f"{partition.topic}-{partition.partition}"
            try:
                offset = future.result(self._timeout + 1).offset
            except (KafkaException, TimeoutError) as e:
                self._warn(partition.topic, f"{where}: {e}")
                continue
            if offset < 0:  # librdkafka's "invalid"; used as an end, it would look like truncation
                self._warn(partition.topic, f"{where}: the broker returned no offset")
                continue
            found[partition.topic][partition.partition] = offset
        return found

    def _delete_retention_of(self, topic: str, topic_id: str) -> int | None:
        known = self._delete_retention.get(topic)
        if known is not None and known[0] == topic_id:
            return known[1]
        resource = ConfigResource(ResourceType.TOPIC, topic)
        [future] = self._admin.describe_configs([resource]).values()
        config = future.result(self._timeout + 1)
        compacted = "compact" in (config["cleanup.policy"].value or "")
        retention = int(config["delete.retention.ms"].value) if compacted else None
        self._delete_retention[topic] = (topic_id, retention)
        return retention

    def _warn(self, about: str, what: str) -> None:
        now = time.monotonic()
        if now - self._warned_at.get(about, -_LOG_EVERY) >= _LOG_EVERY:
            self._warned_at[about] = now
            log.warning("%s", what)
