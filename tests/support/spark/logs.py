"""A raw topic whose records have given timestamps, and views of it as a batch and as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from model.partitioner import murmur2
from spark.event_time.watermarks import Watermarks
from spark.settings import Settings
from spark.sources import Kafka
from spark.supervision.queries import view_queries
from spark.view import View
from spark.views import VIEWS
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.examples import request
from tests.support.topics import Writer, history

Shipped = tuple[bytes, bytes, int, int]
"""Key, value, timestamp in ms, and partition."""

TEN = int(datetime.fromisoformat("2026-01-01T10:00:00+00:00").timestamp())


def shipped(
    number: int, second: int, partition: int = 0, *, behind: int = 0, **changes: Any
) -> Shipped:
    """A request `second` s after ten o'clock, whose line is shipped `behind` seconds later."""
    key, line = request(number, "00:00:00", **changes)
    time = datetime.fromtimestamp(TEN + second, UTC).isoformat()
    value = json.dumps({**json.loads(line), "time": time}).encode()
    return key, value, 1000 * (TEN + second + behind), partition


class Log:
    """A topic of three partitions, and views of it."""

    def __init__(
        self, session: SparkSession, servers: str, make_topic: MakeTopic, folder: Path
    ) -> None:
        self._session = session
        self._servers = servers
        self._make = make_topic
        self._folder = folder
        self._writer = Writer(servers)
        # by default the broker deletes such old records, and rejects those from the future
        self.topic = make_topic(
            partitions=3, retention_ms=-1, message_timestamp_after_max_ms=2**63 - 1
        )
        make_topic(name=f"{self.topic}.dead-letter", cleanup_policy="compact")

    def append(self, records: Iterable[Shipped]) -> None:
        self._writer.send_timed(self.topic, records)

    def batch(self, name: str) -> dict[bytes, bytes]:
        """The view of all records, by one batch job."""
        read = self._session.read.format("kafka").options(**Kafka(self._servers).spark())
        records = read.option("subscribe", self.topic).load()
        return table_of(VIEWS[name].result(records))

    def stream(self, name: str, max_offsets: int, **changes: Any) -> Stream:
        """The view as a stream into a new topic. `changes`: fields of the view to replace."""
        target = self._make(partitions=3, cleanup_policy="compact")
        view = replace(VIEWS[name], source=self.topic, topic=target, **changes)
        return Stream(self._session, self._servers, view, max_offsets, self._folder / target)


class Stream:
    """A view as a stream that can run several times, each time to the current end of the log."""

    def __init__(
        self, session: SparkSession, servers: str, view: View, max_offsets: int, folder: Path
    ) -> None:
        self._session = session
        self._servers = servers
        self.view = view
        self.settings = Settings(
            views=[view],
            kafka=Kafka(servers),
            checkpoint_dir=str(folder),
            once=True,
            max_offsets_per_trigger=max_offsets,
        )
        self.dropped = 0

    def run(self) -> Stream:
        """Runs to the current end of the log."""
        with self._running(availableNow=True) as query:
            assert query.awaitTermination(150)
        return self

    @contextmanager
    def live(self) -> Iterator[StreamingQuery]:
        """Runs until the block ends, without a pause between micro-batches."""
        with self._running(processingTime="0 seconds") as query:
            yield query

    @contextmanager
    def _running(self, **trigger: Any) -> Iterator[StreamingQuery]:
        listener = Watermarks(self._session)
        self._session.streams.addListener(listener)
        try:
            queries = view_queries(self._session, self.view, self.settings, 3, 3, listener)
            query = queries.result.trigger(**trigger).start()
            try:
                yield query
            finally:
                query.stop()
            for progress in query.recentProgress:
                self.dropped += sum(e.numRowsDroppedByWatermark for e in progress.stateOperators)
        finally:
            self._session.streams.removeListener(listener)

    def table(self) -> dict[bytes, bytes]:
        """The latest value of each key in the view topic."""
        table: dict[bytes, bytes] = {}
        for log in history(self._servers, self.view.topic, 3):
            for _, _, key, value in log.records:
                if value is None:
                    table.pop(key, None)
                else:
                    table[key] = value
        return table


def table_of(rows: DataFrame) -> dict[bytes, bytes]:
    """The rows of a view, as values by key."""
    binary = rows.selectExpr("cast(key as binary) AS key", "cast(value as binary) AS value")
    return {bytes(row["key"]): bytes(row["value"]) for row in binary.collect()}


def partition_of(key: bytes) -> int:
    """The partition, of three, that Kafka's own producer chooses."""
    return (murmur2(key) & 0x7FFFFFFF) % 3
