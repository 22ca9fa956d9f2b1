"""Watermarks that free state, but never drop records that are not late.

Spark's own watermark is the greatest event time read, less a delay. Partitions are read at
different speeds, and can be days apart after an outage, so it would drop records of slower
partitions. Here the driver computes the watermark of the slowest partition after every micro-batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from spark.event_time.bounds import EARLINESS

DISORDER_S = 24 * 3600
"""The number of seconds by which timestamps in a partition may be out of order. Also the number of
seconds after which a partition that was read to its end, and has no new records, no longer holds
back the watermark."""

# Spark's own watermark is the greatest time read, less this delay. It would drop records of
# partitions that are read more slowly than others, so it must never move: ``Watermarks`` moves it.
NEVER_DAYS = 1_000_000
NEVER = f"{NEVER_DAYS} days"

_METRICS = "read "  # followed by the topic
_STEP = 3_600_000


def observed(records: DataFrame, topic: str, partitions: int, lateness: int) -> DataFrame:
    """Returns the same records, and adds the level of each partition to the query's progress.

    The level is the greatest timestamp, less ``lateness`` s: the earliest event time (ms) that a
    record with this timestamp may have. Timestamps in the future are ignored. Otherwise one
    producer whose clock is ahead would move the watermark past all other records. The watermark
    would stay there, because the checkpoint stores it.
    """
    timestamp = F.unix_millis("timestamp")
    now = F.unix_millis(F.current_timestamp()) + 1000 * EARLINESS
    level = timestamp - 1000 * lateness
    levels = [
        F.max(F.when((F.col("partition") == number) & (timestamp <= now), level)).alias(str(number))
        for number in range(partitions)
    ]
    return records.observe(_METRICS + topic, *levels)


class LowWatermark:
    """The watermark of one query: unread records with an earlier event time (ms) are late.

    A partition that was not read since the start may have records of any time. So there is no
    watermark until it has had no new records for ``DISORDER_S`` seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_at = clock()
        self._seen: dict[str, tuple[int, float]] = {}

    def advance(
        self, partitions: Collection[str], read: Mapping[str, int], caught_up: Collection[str]
    ) -> int | None:
        """The watermark (ms) after a micro-batch; None if it is not known yet.

        ``read``: the level (ms) of each partition that had records. ``caught_up``: partitions that
        were read to their end.
        """
        now = self._clock()
        for partition, level in read.items():
            before, _ = self._seen.get(partition, (level, now))
            self._seen[partition] = max(before, level), now
        levels = []
        for partition in partitions:
            seen = self._seen.get(partition)
            since = self._started_at if seen is None else seen[1]
            if partition in caught_up and now - since > DISORDER_S:
                continue
            if seen is None:
                return None
            levels.append(seen[0])
        return min(levels) - 1000 * DISORDER_S if levels else None


class Watermarks(StreamingQueryListener):
    """Computes and advances the watermarks of queries whose records are ``observed``."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._streams: Any = session._jsparkSession.streams()
        self._low: dict[str, LowWatermark] = {}  # by run
        self._watermarks_ms: dict[str, int] = {}  # by query

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        levels = {
            f"{name.removeprefix(_METRICS)}/{partition}": level
            for name, observation in progress.observedMetrics.items()
            if name.startswith(_METRICS)
            for partition, level in observation.asDict().items()
        }
        if not levels:
            return
        low = self._low.setdefault(str(progress.runId), LowWatermark())
        partitions, caught_up = _partitions(progress, {name.rpartition("/")[0] for name in levels})
        if not partitions <= levels.keys():
            return  # partitions that were added since the start are not observed
        read = {name: level for name, level in levels.items() if level is not None}
        watermark = low.advance(partitions, read, caught_up)
        if watermark is not None:
            self._watermarks_ms[str(progress.id)] = watermark

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._low.pop(str(event.runId), None)
        self._watermarks_ms.pop(str(event.id), None)

    def advance(self) -> None:
        """Advances the watermark of the query that runs in this thread, for its next micro-batch.

        Call it while a micro-batch is being written. An idle query plans its next micro-batch
        several times, and fails if the watermark changes between two plans.
        """
        id_ = self._session.sparkContext.getLocalProperty("sql.streaming.queryId")
        watermark = self._watermarks_ms.get(id_ or "")
        query = self._streams.get(id_) if watermark is not None else None
        if query is not None:
            tracker = query.streamingQuery().watermarkTracker()
            if watermark >= tracker.currentWatermark() + _STEP:
                tracker.setWatermark(watermark)


def _partitions(
    progress: StreamingQueryProgress, topics: Collection[str]
) -> tuple[set[str], set[str]]:
    """All partitions of these topics, as ``topic/partition``, and the partitions that the
    micro-batch read to their end."""
    partitions: set[str] = set()
    caught_up: set[str] = set()
    for source in progress.sources:
        latest = json.loads(source.latestOffset or "{}")
        for topic, offsets in json.loads(source.endOffset or "{}").items():
            for partition, offset in offsets.items() if topic in topics else ():
                partitions.add(f"{topic}/{partition}")
                if offset >= latest.get(topic, {}).get(partition, offset + 1):
                    caught_up.add(f"{topic}/{partition}")
    return partitions, caught_up
