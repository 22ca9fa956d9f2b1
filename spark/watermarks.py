"""When Spark may forget: a watermark that frees state, and drops no record that is not late.

Spark's own is the greatest event time that was read, less a delay. Partitions are read at different
speeds, after an outage days apart, so it would drop what the slower ones still hold. Ours is
computed by the driver after every micro-batch, of the slowest partition.
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

from spark.schemas import EARLINESS, LATENESS

DISORDER = 24 * 3600
"""By how many seconds timestamps within a partition may go back; and how long a partition has to be
silent, while we run and have read all of it, before the others no longer wait for it."""

_METRICS = "read"
_STEP = 3_600_000


def observed(records: DataFrame, partitions: int) -> DataFrame:
    """The same records; Spark tells the greatest timestamp (ms) that it read of each partition.

    Timestamps of the future do not count: one producer whose clock is ahead would move the
    watermark past everybody's records, and the checkpoint keeps it.
    """
    timestamp = F.unix_millis("timestamp")
    latest = F.unix_millis(F.current_timestamp()) + 1000 * EARLINESS
    greatest = [
        F.max(F.when((F.col("partition") == number) & (timestamp <= latest), timestamp)).alias(
            str(number)
        )
        for number in range(partitions)
    ]
    return records.observe(_METRICS, *greatest)


class LowWatermark:
    """Of one query: all unread records with an event time (ms) before it are late.

    A partition that we have not read since we started may hold anything: until it is silent for
    ``DISORDER`` seconds there is no watermark.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._seen: dict[str, tuple[int, float]] = {}

    def advance(
        self, partitions: Collection[str], read: Mapping[str, int], caught_up: Collection[str]
    ) -> int | None:
        """After a micro-batch. ``read``: the greatest timestamp (ms) of each partition that had
        records in it. ``caught_up``: the partitions that were read to their end. None: not known
        yet.
        """
        now = self._clock()
        for partition, timestamp in read.items():
            before, _ = self._seen.get(partition, (timestamp, now))
            self._seen[partition] = max(before, timestamp), now
        levels = []
        for partition in partitions:
            seen = self._seen.get(partition)
            since = self._begun if seen is None else seen[1]
            if partition in caught_up and now - since > DISORDER:
                continue
            if seen is None:
                return None
            levels.append(seen[0])
        return min(levels) - 1000 * (DISORDER + LATENESS) if levels else None


class Watermarks(StreamingQueryListener):
    """Moves the watermarks of the queries whose records are ``observed``."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._streams: Any = session._jsparkSession.streams()
        self._low: dict[str, LowWatermark] = {}  # by run
        self._known: dict[str, int] = {}  # by query; ms

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        observation = progress.observedMetrics.get(_METRICS)
        if observation is None:
            return
        low = self._low.setdefault(str(progress.runId), LowWatermark())
        greatest = observation.asDict()
        partitions, caught_up = _partitions(progress)
        if not partitions <= greatest.keys():
            return  # some partitions were added since the start, and are not observed
        read = {name: at for name, at in greatest.items() if at is not None}
        watermark = low.advance(partitions, read, caught_up)
        if watermark is not None:
            self._known[str(progress.id)] = watermark

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._low.pop(str(event.runId), None)
        self._known.pop(str(event.id), None)

    def move(self) -> None:
        """Moves the watermark of the query whose thread this is, for its next micro-batch.

        To be called while a micro-batch is written. Spark plans the next one once and again while
        it is idle, and fails if the watermark changes in between.
        """
        id_ = self._session.sparkContext.getLocalProperty("sql.streaming.queryId")
        watermark = self._known.get(id_ or "")
        query = self._streams.get(id_) if watermark is not None else None
        if query is not None:
            tracker = query.streamingQuery().watermarkTracker()
            if watermark >= tracker.currentWatermark() + _STEP:
                tracker.setWatermark(watermark)


def _partitions(progress: StreamingQueryProgress) -> tuple[set[str], set[str]]:
    """The source's partitions, and those that this micro-batch has read to their end."""
    partitions: set[str] = set()
    caught_up: set[str] = set()
    for source in progress.sources:
        latest = json.loads(source.latestOffset or "{}")
        for topic, offsets in json.loads(source.endOffset or "{}").items():
            for partition, offset in offsets.items():
                partitions.add(partition)
                if offset >= latest.get(topic, {}).get(partition, offset + 1):
                    caught_up.add(partition)
    return partitions, caught_up
