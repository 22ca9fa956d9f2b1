"""Polls the pipelines that derive views: their committed offsets and the ends of their sources.

One thread, started only if a view has a pipeline. Each poll is one request per group coordinator,
and a few for all source topics together.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafka.errors import KafkaError

from backend.ingest.metadata_poller import MetadataPoller
from backend.pipelines.consumer_groups import ConsumerGroups
from backend.pipelines.log_gaps import LogGaps
from model.pipelines import Committed, Ends, Pipeline, Unit, parse_beat
from model.views import View

_Answer = TypeVar("_Answer")

log = logging.getLogger(__name__)

_INTERVAL = 1.0  # s between two polls
_GROUPS_A_SECOND = 50  # with more groups, each is polled less often
_LOG_EVERY = 30.0  # s between two log lines about the same problem


class PipelineMonitor:
    """The pipelines of a deployment, by consumer group and by view."""

    def __init__(
        self,
        views: Iterable[View],
        client_settings: Mapping[str, Any],
        group_settings: Mapping[str, Any],
        timeout: float,
    ) -> None:
        """Settings of librdkafka and of kafka-python; `timeout`: s for one request."""
        groups = {view.name: view.pipeline for view in views if view.pipeline}
        self._timeout = timeout
        self._interval = max(_INTERVAL, len(set(groups.values())) / _GROUPS_A_SECOND)
        self._by_group = {
            group: Pipeline(group, 3 * self._interval + 2) for group in sorted(set(groups.values()))
        }
        self.by_view = {name: self._by_group[group] for name, group in groups.items()}
        self._stop = threading.Event()
        self._warned_at: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        if self._by_group:
            self._groups = ConsumerGroups(group_settings, timeout)
            # its thread is never started: this thread calls `poll`
            self._topics = MetadataPoller(client_settings, self._interval, timeout)
            self._gaps = LogGaps(client_settings)

    def start(self) -> None:
        """Start the thread, if any view has a pipeline."""
        if self._by_group:
            self._thread = threading.Thread(target=self._run, name="pipelines", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, within the timeouts of a few requests."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._timeout + 1)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._poll()
            except Exception as e:  # the thread must survive any error of the broker
                self._warn("*", f"cannot poll the pipelines of views: {e}")
            self._stop.wait(max(0.1, self._interval - (time.monotonic() - began)))
        self._gaps.close()
        self._groups.close()

    def _poll(self) -> None:
        """Fetch committed offsets first, then log ends: the difference is not read yet."""
        committed = self._of_each(self._groups.committed, list(self._by_group))
        members = self._of_each(
            self._groups.have_members,
            [
                group
                for group, offsets in committed.items()
                if offsets and not any(parse_beat(each.metadata) for each in offsets.values())
            ],
        )
        topics = sorted({topic for offsets in committed.values() for topic, _ in offsets})
        if topics:
            try:
                self._topics.poll(topics)
            except Exception as e:
                # heartbeats are still valid, and the previous ends have a timestamp
                self._warn("topics", f"cannot poll the sources of pipelines: {e}")
        ends = {
            topic: Ends(topic_metadata.starts, topic_metadata.ends, topic_metadata.fetched_at)
            for topic in topics
            if (topic_metadata := self._topics.get(topic)) is not None
        }
        self._skip_gaps(committed, ends)
        now, wall_ms = time.monotonic(), time.time_ns() // 1_000_000
        for group, offsets in committed.items():
            of_group = {topic: ends[topic] for topic in {t for t, _ in offsets} if topic in ends}
            self._by_group[group].looked(now, wall_ms, offsets, of_group, members.get(group))

    def _skip_gaps(
        self, committed: Mapping[str, dict[Unit, Committed]], ends: Mapping[str, Ends]
    ) -> None:
        """If only transaction markers remain before the end, the group has read everything."""
        gaps = {
            (group, unit): (each.offset, end)
            for group, offsets in committed.items()
            for unit, each in offsets.items()
            if unit[0] in ends and each.offset < (end := ends[unit[0]].ends.get(unit[1], 0))
        }
        for group, unit in self._gaps.empty(gaps):
            before = committed[group][unit]
            committed[group][unit] = before._replace(offset=gaps[group, unit][1])

    def _of_each(
        self, ask: Callable[[list[str]], dict[str, _Answer]], groups: list[str]
    ) -> dict[str, _Answer]:
        """The answers for these groups, without the groups that fail."""
        if not groups:
            return {}
        try:
            return ask(groups)
        except (KafkaError, OSError) as e:
            if len(groups) == 1:
                self._warn(groups[0], f"pipeline {groups[0]}: {e!r}")
                return {}
        answers: dict[str, _Answer] = {}
        for group in groups:
            if not self._stop.is_set():
                answers |= self._of_each(ask, [group])
        return answers

    def _warn(self, about: str, what: str) -> None:
        now = time.monotonic()
        if now - self._warned_at.get(about, -_LOG_EVERY) >= _LOG_EVERY:
            self._warned_at[about] = now
            log.warning("%s", what)
