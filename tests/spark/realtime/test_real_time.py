"""Views in real-time mode, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backend.pipelines.consumer_groups import ConsumerGroups
from local.demo.verify import dead_letters
from local.kafka.broker import Broker
from local.waiting import wait_until
from model.partitioner import murmur2
from model.pipelines.status import parse_heartbeat
from spark.errors import JobError
from spark.formats.decoders import TextDecoder
from spark.formats.keys import int64
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from spark.triggers import REAL_TIME
from spark.view import View
from spark.views import VIEWS
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.examples import flight
from tests.support.spark.runner import Runner
from tests.support.topics import Writer, history

LONG = "60 seconds"  # no batch ends in a test
SHORT = "1 second"


def offsets(texts: DataFrame) -> DataFrame:
    """The offset of each text."""
    return texts.select(F.col("text").alias("key"), int64(F.col("offset")).alias("value"))


class RealTime(Runner):
    """Runs a view in real-time mode. The source has one partition, the view topic has three."""

    def __init__(
        self, session: SparkSession, broker: Broker, make: MakeTopic, folder: Path, view: View
    ) -> None:
        super().__init__(session, broker.bootstrap_servers, make, folder)
        self.servers = broker.bootstrap_servers
        self.target = make(partitions=3, cleanup_policy="compact")
        self.letters = make(name=f"{self.source}.dead-letter", cleanup_policy="compact")
        self.view = replace(
            view, name="live", source=self.source, topic=self.target, trigger=REAL_TIME
        )
        self.use(LONG)

    def use(self, batch: str, trigger: str = REAL_TIME) -> None:
        view = replace(self.view, trigger=trigger)
        self.settings = replace(self.settings, views=[view], real_time_batch=batch)

    def records(self) -> list[tuple[int, bytes, bytes | None]]:
        """Partition, key and value of all records of the view topic, by partition."""
        return [
            (partition, key, value)
            for partition, log in enumerate(history(self.servers, self.target, 3))
            for _, _, key, value in log.records
        ]

    def offsets_of(self, text: str) -> list[int]:
        """The values of a key, in the order in which they were written."""
        found = [value for _, key, value in self.records() if key == text.encode()]
        return [int.from_bytes(value or b"", "big") for value in found]

    def wait_for(self, text: str, *wanted: int) -> None:
        wait_until(lambda: self.offsets_of(text) == list(wanted), 30, f"the view of {text}", 0.05)

    def wait_heartbeat(self, offset: int) -> None:
        """Waits until the view's group says that it runs and has read all up to ``offset``."""
        group = "queryable-spark-live"
        groups = ConsumerGroups({"bootstrap_servers": self.servers}, 10)

        def says_so() -> bool:
            found = groups.committed([group])[group].get((self.source, 0))
            heartbeat = parse_heartbeat(found.metadata) if found is not None else None
            if found is None or found.offset != offset or heartbeat is None:
                return False
            read_at = (heartbeat.caught_up_at_ms or 0) / 1000
            return heartbeat.state == "running" and time.time() - read_at < 30

        try:
            wait_until(says_so, 30, "the heartbeat", 0.1)
        finally:
            groups.close()

    def position(self) -> int:
        found: dict[str, Any] = self.progress("live")["source_offsets"]
        return int(found.get(self.source, {}).get("0", 0))


@contextmanager
def shorter_batches(session: SparkSession) -> Iterator[None]:
    """Spark's least duration of a batch is 5 s."""
    name = "spark.sql.streaming.realTimeMode.minBatchDuration"
    session.conf.set(name, "500")
    try:
        yield
    finally:
        session.conf.unset(name)


@pytest.fixture
def texts(session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> RealTime:
    view = View(name="live", source="raw", decoder=TextDecoder(), derive=offsets)
    return RealTime(session, broker, make_topic, tmp_path, view)


def test_records_are_there_before_the_batch_ends_and_a_stop_in_it_loses_nothing(
    texts: RealTime,
) -> None:
    texts.write(b"before")
    with texts.stream():
        texts.wait_for("before", 0)
        texts.write(b"one", b"one")
        texts.wait_for("one", 1, 2)
        assert texts.position() == 0  # the batch has not ended
        stopped_at = time.monotonic()
    assert time.monotonic() - stopped_at < 30  # before the batch would have ended
    # Nothing was committed, so the same values are written again.
    texts.write(b"two")
    with texts.stream():
        texts.wait_for("two", 3)
        texts.wait_for("one", 1, 2, 1, 2)


def test_a_view_changes_between_triggers(texts: RealTime, session: SparkSession) -> None:
    def commit(text: str, trigger: str) -> None:
        texts.use(SHORT, trigger)
        before = texts.position()
        texts.write(text.encode())
        with texts.stream():
            texts.wait_progress(
                lambda p: p["source_offsets"].get(texts.source, {}).get("0", 0) > before, "live"
            )

    with shorter_batches(session):
        commit("a", REAL_TIME)
        commit("b", "100 milliseconds")
        commit("c", REAL_TIME)
    # Each was committed, so none was written again.
    assert [texts.offsets_of(text) for text in "abc"] == [[0], [1], [2]]


def test_records_that_were_deleted_unread_are_an_error(
    texts: RealTime, session: SparkSession
) -> None:
    """A view without them would be silently wrong."""
    with shorter_batches(session):
        texts.use(SHORT)
        texts.write(b"read")
        with texts.stream():
            wait_until(lambda: texts.position() == 1, 60, "the first batch", 0.02)
        texts.write(b"deleted", b"kept")
        texts.truncate(2)
        with texts.stream():
            texts.wait_progress(lambda p: "lost records" in (p.get("last_error") or ""), "live")
    assert texts.offsets_of("kept") == []


def test_departures_as_in_micro_batches(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Decoding, rules, keys, partitions and dead letters, without Python workers."""
    live = RealTime(session, broker, make_topic, tmp_path, VIEWS["departures"])
    flights = [flight(tailnum=f"N{number}", dep_delay=number) for number in range(20)]
    malformed = [(b"N1", b"{"), flight(minute=60), flight(dep_delay=None), flight(tailnum="")]
    Writer(broker.bootstrap_servers).send(live.source, [*flights, *malformed])
    with shorter_batches(session):
        live.use(SHORT)
        with live.stream():
            live.wait_progress(lambda p: p.get("dead_letters") == 4, "live")
            live.wait_heartbeat(offset=24)
    found = live.records()
    assert all((murmur2(key[:-12]) & 0x7FFFFFFF) % 3 == partition for partition, key, _ in found)
    reasons = [
        headers["reason"] for _, headers in dead_letters(live.servers, live.letters).values()
    ]
    assert sorted(reason.decode().split(": ")[0] for reason in reasons if reason) == [
        "dep_delay", "minute", "tailnum", "value",
    ]  # fmt: skip
    # The same with micro-batches and Python, in another topic.
    other = RealTime(session, broker, make_topic, tmp_path / "other", VIEWS["departures"])
    Writer(broker.bootstrap_servers).send(other.source, [*flights, *malformed])
    supervise(session, other.settings, StopSignal())  # once
    assert sorted(other.records()) == sorted(found)
    assert len(found) == 20


def test_too_few_slots_are_an_error_before_the_start(
    texts: RealTime, make_topic: MakeTopic
) -> None:
    source = make_topic(partitions=2)
    view = replace(texts.view, source=source)
    settings = replace(texts.settings, views=[view], once=False)
    with pytest.raises(JobError, match=r"need 2 task slots .* there are 2.* --master local\[4\]"):
        supervise(texts.session, settings, StopSignal())
