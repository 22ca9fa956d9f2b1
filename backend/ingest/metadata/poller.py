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

from backend.ingest.lifecycle.missed_tombstones import longest_poll_interval
from backend.ingest.metadata.fetcher import MetadataFetcher
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.kafka.admin import GRACE_S

log = logging.getLogger(__name__)

_FORGET_AFTER = 2.0  # s after which a topic that is not watched is forgotten
_STARTS_EVERY = 5.0
"""s between two fetches of all log starts, unless there is a request for new metadata. A consumer
notices by itself that its position is no longer in the log, which leads to such a request."""
_NEW_CLIENT_AFTER = 15.0  # s without an answer


class MetadataPoller:
    """Fetches TopicMetadata of the watched topics every `interval` s, or immediately on request. A
    topic with a short `delete.retention.ms` makes the interval shorter."""

    def __init__(self, fetcher: MetadataFetcher, interval: float, timeout: float) -> None:
        """`timeout`: of a request, in s. No other thread uses the fetcher."""
        self._fetcher = fetcher
        self._answered_at = time.monotonic()
        self._interval = interval
        self._timeout = timeout
        self._watched: Mapping[str, Set[int]] = {}
        self._unwatched: dict[str, float] = {}  # topic -> since when: s, monotonic
        self.latest = self._fetcher.latest
        """Topic -> metadata, for the watched topics. Readers may keep the dict."""
        self.on_poll: Callable[[], None] = lambda: None
        """Called after each poll that the broker has answered."""
        self._wake = threading.Event()
        self._is_requested = threading.Event()  # new metadata, with log starts
        self._stop = threading.Event()
        self._polled = threading.Condition()
        self._polled_since = 0.0  # start of the last successful poll
        self._starts_at = -_STARTS_EVERY  # s, monotonic: when all log starts were last requested
        self._log = RateLimitedLog(log)
        self._thread = threading.Thread(target=self._run, name="metadata-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, within a request's timeout."""
        self._stop.set()
        self._wake.set()
        self._thread.join(self._timeout + GRACE_S)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def watch(self, partitions: Mapping[str, Set[int]]) -> None:
        """Set the topics to poll, and the partitions of each whose offsets are needed. If they
        change, poll immediately. The metadata of other topics is forgotten after some seconds."""
        if partitions != self._watched:
            self._watched = partitions
            self.refresh()

    def get(self, topic: str) -> TopicMetadata | None:
        """The latest metadata; None if there is none yet, or the topic is not watched."""
        return self.latest.get(topic)

    def refresh(self) -> None:
        """Request a poll as soon as possible, and do not wait for it."""
        self._is_requested.set()
        self._wake.set()

    def fresh(self, topic: str) -> TopicMetadata | None:
        """Poll and return the new metadata, or the latest known if the broker does not answer.

        Blocks for at most one request's timeout. Threads that answer reads must not call it.
        """
        since = time.monotonic()
        self.refresh()
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
            with_starts = started_at - self._starts_at >= _STARTS_EVERY
            if self._is_requested.is_set():
                self._is_requested.clear()
                with_starts = True
            if with_starts:
                self._starts_at = started_at
            try:
                if self._fetcher.fetch(watched, with_starts):
                    self._answered_at = time.monotonic()
                    self.on_poll()
                with self._polled:
                    self._polled_since = started_at
                    self._polled.notify_all()
            except Exception as e:  # the thread must survive any error of the broker
                self._log.warn("*", f"the broker does not answer: {e}")
            if time.monotonic() - self._answered_at > _NEW_CLIENT_AFTER:
                # after an outage, a client can wait for the controller forever
                self._fetcher.reconnect()
                self._answered_at = time.monotonic()

    def _forget(self, topics: Set[str]) -> None:
        """Forget topics that are not watched, because they may be deleted, or get more partitions.
        This happens only after a while, because their stores may not be closed yet."""
        now = time.monotonic()
        self._unwatched = {topic: self._unwatched.get(topic, now) for topic in topics}
        for topic, since in self._unwatched.items():
            if now - since > _FORGET_AFTER:
                del self.latest[topic]

    def _seconds_to_next_poll(self) -> float:
        seconds = poll_interval(self._interval, self.latest.values())
        return min(seconds, _FORGET_AFTER) if self._unwatched else seconds


def poll_interval(usual: float, topics: Iterable[TopicMetadata]) -> float:
    """The time between two polls (s). It is shorter than `usual` if a compacted topic keeps its
    tombstones only for a short time."""
    retentions = [topic.delete_retention for topic in topics]
    needed = [longest_poll_interval(r) for r in retentions if r is not None]
    return min([usual, *needed])
