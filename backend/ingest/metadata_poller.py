"""The broker's own word on topics, fetched again and again: ends, starts, ids, partition counts.

One thread. Lag and staleness are measured against what it fetched, so they can say how old they
are; topics made anew, truncated logs and added partitions are seen here.
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

_LOG_EVERY = 30.0  # s between two lines about the same trouble


class MetadataPoller:
    """Fetches TopicMetadata of the watched topics every `interval` s, or at once when asked to."""

    def __init__(self, client_settings: Mapping[str, Any], interval: float, timeout: float) -> None:
        self._admin = AdminClient(
            # its own log says each second what `_say` says once
            {**client_settings, "client.id": "queryable-watcher", "log_level": 0}
        )
        self._interval = interval
        self._timeout = timeout
        self._topics: frozenset[str] = frozenset()
        self.latest: dict[str, TopicMetadata] = {}  # topic -> facts; a reader may keep the dict
        self._delete_retention: dict[str, tuple[str, int | None]] = {}  # topic -> (id, ms)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._looked = threading.Condition()
        self._looked_since = 0.0  # when the last look that succeeded began
        self._said: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, within a request's time-out."""
        self._stop.set()
        self._wake.set()
        self._thread.join(self._timeout + 1)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def watch(self, topics: frozenset[str]) -> None:
        """From now on these topics; a new one is asked for at once."""
        if topics != self._topics:
            self._topics = topics
            self._wake.set()

    def facts(self, topic: str) -> TopicMetadata | None:
        """The newest facts; None before the first answer."""
        return self.latest.get(topic)

    def refresh(self) -> None:
        """Ask the broker again now."""
        self._wake.set()

    def fresh(self, topic: str) -> TopicMetadata | None:
        """Facts that the broker told after this call; the newest there are if it does not answer.

        Waits for at most one request's time-out: not for whoever answers readers.
        """
        since = time.monotonic()
        self._wake.set()
        with self._looked:
            self._looked.wait_for(lambda: self._looked_since >= since, self._timeout)
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
                self.look(sorted(topics))
                with self._looked:
                    self._looked_since = began
                    self._looked.notify_all()
            except Exception as e:  # the thread must outlive whatever the broker does
                self._say("*", f"the broker does not answer: {e}")

    def look(self, topics: list[str]) -> None:
        """Ask the broker now, in the caller's thread; KafkaException, TimeoutError."""
        described = self._admin.describe_topics(
            TopicCollection(topics), request_timeout=self._timeout
        )
        ids: dict[str, str] = {}
        counts: dict[str, int] = {}
        for topic, future in described.items():
            try:
                description = future.result(self._timeout + 1)
            except (KafkaException, TimeoutError) as e:
                self._say(topic, f"topic {topic}: {e}")
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
                self._say(partition.topic, f"{where}: {e}")
                continue
            if offset < 0:  # librdkafka's "invalid": taken for an end, it would be a truncated log
                self._say(partition.topic, f"{where}: the broker tells no offset")
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

    def _say(self, about: str, what: str) -> None:
        now = time.monotonic()
        if now - self._said.get(about, -_LOG_EVERY) >= _LOG_EVERY:
            self._said[about] = now
            log.warning("%s", what)
