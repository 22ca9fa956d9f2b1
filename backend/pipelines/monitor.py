"""Polls the pipelines that derive views: their committed offsets and the ends of their sources.

One thread polls, if any view has a pipeline. Each poll takes one request per group coordinator, and
a few in total for all source topics.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafka.errors import KafkaError

from backend.ingest.metadata.fetcher import MetadataFetcher
from backend.pipelines.consumer_groups import ConsumerGroups
from backend.pipelines.log_gaps import LogGaps
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.machine.clock import boot_time
from model.pipelines.status import (
    CommittedOffset,
    LogOffsets,
    Pipeline,
    SourcePartition,
    parse_heartbeat,
)
from model.views import View

_Result = TypeVar("_Result")

log = logging.getLogger(__name__)

_MIN_INTERVAL = 1.0  # s between two polls
_MAX_GROUPS_PER_SECOND = 50  # with more groups, polls are further apart


class PipelineMonitor:
    """The pipelines of a deployment. `by_view`: the pipeline of each view that has one."""

    def __init__(
        self,
        views: Iterable[View],
        client_settings: Mapping[str, Any],
        group_settings: Mapping[str, Any],
        timeout: float,
    ) -> None:
        """`client_settings`: of librdkafka. `group_settings`: of kafka-python. `timeout` (s): for
        one request."""
        groups = {view.name: view.pipeline for view in views if view.pipeline}
        self._timeout = timeout
        self._interval = max(_MIN_INTERVAL, len(set(groups.values())) / _MAX_GROUPS_PER_SECOND)
        self._by_group = {
            group: Pipeline(group, 3 * self._interval + 2) for group in sorted(set(groups.values()))
        }
        self.by_view = {name: self._by_group[group] for name, group in groups.items()}
        self._stop = threading.Event()
        self._log = RateLimitedLog(log)
        self._thread: threading.Thread | None = None
        if self._by_group:
            self._groups = ConsumerGroups(group_settings, timeout)
            self._topics = MetadataFetcher(client_settings, timeout)
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
            started_at = time.monotonic()
            try:
                self._poll()
            except Exception as e:  # the thread must survive any error of the broker
                self._log.warn("*", f"cannot poll the pipelines of views: {e}")
            self._stop.wait(max(0.1, self._interval - (time.monotonic() - started_at)))
        self._gaps.close()
        self._groups.close()

    def _poll(self) -> None:
        """Poll all groups and source topics. Committed offsets are fetched before log ends, so that
        the difference is the lag."""
        committed = self._per_group(self._groups.committed, list(self._by_group))
        members = self._per_group(
            self._groups.have_members,
            [
                group
                for group, offsets in committed.items()
                if offsets and not any(parse_heartbeat(o.metadata) for o in offsets.values())
            ],
        )
        topics = sorted({topic for offsets in committed.values() for topic, _ in offsets})
        if topics:
            try:
                self._topics.fetch(dict.fromkeys(topics))
            except Exception as e:
                # heartbeats are still valid, and the previous log ends have a timestamp
                self._log.warn("topics", f"cannot poll the sources of pipelines: {e}")
        ends = {
            topic: LogOffsets(
                topic_metadata.starts,
                topic_metadata.ends,
                topic_metadata.fetched_boot_time,
                topic_metadata.high_watermarks,
            )
            for topic in topics
            if (topic_metadata := self._topics.latest.get(topic)) is not None
            and topic_metadata.has_all_offsets  # else the lag would be too small
        }
        self._skip_empty_gaps(committed, ends)
        now, wall_ms = boot_time(), time.time_ns() // 1_000_000
        for group, offsets in committed.items():
            group_ends = {topic: ends[topic] for topic in {t for t, _ in offsets} if topic in ends}
            self._by_group[group].record_poll(now, wall_ms, offsets, group_ends, members.get(group))

    def _skip_empty_gaps(
        self,
        committed: Mapping[str, dict[SourcePartition, CommittedOffset]],
        ends: Mapping[str, LogOffsets],
    ) -> None:
        """Move committed offsets to the end of the log if only transaction markers are between
        them."""
        gaps = {
            (group, source_partition): (committed_offset.offset, end)
            for group, offsets in committed.items()
            for source_partition, committed_offset in offsets.items()
            if source_partition[0] in ends
            and committed_offset.offset
            < (end := ends[source_partition[0]].ends.get(source_partition[1], 0))
        }
        for group, source_partition in self._gaps.empty(gaps):
            before = committed[group][source_partition]
            committed[group][source_partition] = before._replace(
                offset=gaps[group, source_partition][1]
            )

    def _per_group(
        self, fetch: Callable[[list[str]], dict[str, _Result]], groups: list[str]
    ) -> dict[str, _Result]:
        """The results for these groups, without the groups for which the request fails."""
        if not groups:
            return {}
        try:
            return fetch(groups)
        except (KafkaError, OSError) as e:
            if len(groups) == 1:
                self._log.warn(groups[0], f"pipeline {groups[0]}: {e!r}")
                return {}
        results: dict[str, _Result] = {}
        for group in groups:
            if not self._stop.is_set():
                results |= self._per_group(fetch, [group])
        return results
