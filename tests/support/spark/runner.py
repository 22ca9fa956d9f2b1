"""Runs the supervisor in a thread of the test's process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import SparkSession

from local.kafka.broker import quiet_admin
from local.waiting import wait_until
from spark.event_time.bounds import EventTimeBounds
from spark.formats.decoders import TextDecoder
from spark.settings import Settings
from spark.sources import Kafka
from spark.supervision.events import StopRequested
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from spark.views import VIEWS
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Log, Writer, history


class TimedTexts(TextDecoder):
    """Texts whose view has a watermark."""

    event_time = EventTimeBounds("timestamp", 0, 0)  # type: ignore[assignment]


class Runner:
    """Runs word-count with new topics. The source has one partition."""

    def __init__(self, session: SparkSession, servers: str, make: MakeTopic, folder: Path) -> None:
        self.session = session
        self._make = make
        self._writer = Writer(servers)
        self._admin = quiet_admin(servers)
        self._servers = servers
        self.source, self.target = make(), make(cleanup_policy="compact")
        self.view = replace(VIEWS["word-count"], source=self.source, topic=self.target)
        self.settings = Settings(
            views=[self.view],
            kafka=Kafka(servers),
            checkpoint_dir=str(folder / "checkpoints"),
            progress=folder / "progress.json",
            once=True,
            trigger="100 milliseconds",
        )

    def write(self, *texts: bytes) -> None:
        self.write_to(self.source, *texts)

    def write_to(self, topic: str, *texts: bytes) -> None:
        self._writer.send(topic, [(b"t", text) for text in texts])

    def once(self) -> dict[str, Any]:
        """Runs to the current end of the source; returns the view's progress."""
        supervise(self.session, self.settings, StopSignal())
        return self.progress()

    @contextmanager
    def stream(self) -> Iterator[threading.Thread]:
        """Runs in another thread; stops it at the end of the block, like a signal."""
        stop = StopSignal()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                supervise(self.session, replace(self.settings, once=False), stop)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run, name="supervise")
        thread.start()
        try:
            yield thread
        finally:
            stop.events.put(StopRequested())
            thread.join(60)
        assert not thread.is_alive()
        if failed:
            raise failed[0]

    def stream_until(self, happens: Callable[[], None]) -> None:
        """Runs until the job ends because of ``happens``, called after the first micro-batch."""
        self.write(b"one")
        with self.stream() as thread:
            self.wait_progress(lambda p: bool(p["source_offsets"]))
            happens()
            wait_until(lambda: not thread.is_alive(), 60, "the job to end")

    def progress(self, view: str = "word-count") -> dict[str, Any]:
        path = self.settings.progress
        if path is None or not path.exists():
            return {"source_offsets": {}, "restarts": 0}
        progress: dict[str, Any] = json.loads(path.read_text())[view]
        return progress

    def wait_progress(
        self, condition: Callable[[dict[str, Any]], bool], view: str = "word-count"
    ) -> None:
        wait_until(lambda: condition(self.progress(view)), 60, "the progress file", 0.02)

    def counts(self, partitions: int = 1) -> dict[str, int]:
        """The newest count of each word in the view topic; 0 for a tombstone."""
        logs = self.logs(partitions)
        records = sorted((record for log in logs for record in log.records), key=itemgetter(1))
        return {key.decode(): int.from_bytes(value or b"", "big") for _, _, key, value in records}

    def logs(self, partitions: int) -> list[Log]:
        """The partitions of the view topic."""
        return history(self._servers, self.target, partitions)

    def truncate(self, before: int) -> None:
        partition = TopicPartition(self.source, 0, before)
        for future in self._admin.delete_records([partition]).values():
            future.result(10)

    def add_partition(self, topic: str, partitions: int = 2) -> None:
        """Returns when the broker has ``partitions`` of them."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(10)

        def is_known() -> bool:
            return len(self._admin.list_topics(topic, 5).topics[topic].partitions) == partitions

        wait_until(is_known, 10, f"the partitions of {topic}")

    def recreate(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(10)
        wait_until(lambda: topic not in self._admin.list_topics(timeout=5).topics, 30, "deletion")
        self._make(name=topic)
