"""A backfill, a catch-up and a live run end with the table of one batch job over the topic.

This holds for any records, if partitions are read unevenly, and for any number of micro-batches.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from local.kafka.broker import Broker
from local.waiting import wait_until
from spark.event_time.bounds import EARLINESS, LATENESS, EventTimeBounds
from spark.event_time.watermarks import DISORDER_S, LowWatermark, Watermarks
from spark.raw_topics.weblog import WEBLOG
from spark.views import VIEWS
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.examples import flight
from tests.support.spark.logs import TEN, Log, Shipped, partition_of, shipped

DAY = 24 * 3600
WEBLOG_VIEWS = [name for name, view in VIEWS.items() if view.source == "weblog"]


@pytest.fixture
def log(session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> Log:
    return Log(session, broker.bootstrap_servers, make_topic, tmp_path)


def count(table: dict[bytes, bytes]) -> int:
    return sum(int.from_bytes(value, "big") for value in table.values())


def test_partitions_that_are_read_unevenly_lose_nothing(log: Log) -> None:
    # the third partition stays empty
    fast = [shipped(n, 10 * n, 0, client=f"10.0.0.{n % 5}") for n in range(300)]
    slow = [shipped(1000 + n, 576 * n, 1, client=f"10.0.1.{n % 5}") for n in range(150)]
    log.append(fast + slow)
    stream = log.stream("requests-per-host", 150).run()
    assert stream.table() == log.batch("requests-per-host")
    assert count(stream.table()) == 450
    assert stream.dropped == 0


def random_requests(seed: int, size: int) -> list[Shipped]:
    """Three partitions whose times advance at very different speeds, for up to three days.

    Some lines occur twice, in the same partition or another one; some are too late or too early."""
    chosen = random.Random(seed)
    lines: list[Shipped] = []
    for partition, (days, share) in enumerate([(0.02, 3), (3, 2), (1, 1)]):
        second = 0.0
        for number in range(size * share // 6):
            second += chosen.expovariate(size * share / 6 / (days * DAY))
            client = f"10.0.{chosen.randrange(2)}.{chosen.randrange(3)}"
            line = shipped(
                1000 * partition + number,
                int(second) - chosen.choice([0, 0, 30, LATENESS - 1, -EARLINESS + 1]),
                partition,
                client=client,
            )
            key, value, _, _ = line
            at = 1000 * (TEN + int(second))
            lines.append((key, value, at, partition))
            if chosen.random() < 0.3:
                again = 1000 * chosen.choice([0, 5, LATENESS // 2, LATENESS + 5])
                lines.append((key, value, at + again, chosen.choice([partition, 0, 1, 2])))
    # the timestamps of a partition are slightly out of order
    lines.sort(key=lambda line: line[2] + chosen.randrange(-600_000, 600_000))
    return lines


@pytest.mark.parametrize("name", WEBLOG_VIEWS)
def test_requests_in_several_runs_give_the_table_of_a_batch_job(log: Log, name: str) -> None:
    lines = random_requests(WEBLOG_VIEWS.index(name), 240)
    backfill, live = log.stream(name, 100), log.stream(name, 1_000_000)
    for part in (lines[: len(lines) // 3], lines[len(lines) // 3 :]):
        log.append(part)
        live.run()
    wanted = log.batch(name)
    assert len(wanted) >= 6
    assert live.table() == wanted
    assert backfill.run().table() == wanted
    assert (live.dropped, backfill.dropped) == (0, 0)


def test_state_is_freed_behind_the_slowest_partition(log: Log) -> None:
    stream = log.stream("requests-per-minute", 1_000_000)
    with stream.live() as query:
        for day in range(4):
            for part in (range(30), range(30, 60)):
                log.append(shipped(100 * day + n, day * DAY + 60 * n, n % 3) for n in part)
                query.processAllAvailable()
        # the last line of the first partition is the oldest one; the watermark moves by hours, so
        # that of the first half stays
        wanted = TEN + 3 * DAY + 57 * 60 - DISORDER_S - LATENESS

        def freed() -> bool:
            # the watermark moves with a micro-batch: the listener may have been too late for the
            # last one, so a line is sent again
            log.append([shipped(357, 3 * DAY + 60 * 57, 0)])
            query.processAllAvailable()
            progress = query.lastProgress
            assert progress is not None
            mark = progress.eventTime.get("watermark")
            kept = sum(each.numRowsTotal for each in progress.stateOperators)
            # requests and their minutes, of two days
            moved = mark is not None and wanted - 3600 < seconds(mark) <= wanted
            return moved and kept <= 2 * 2 * 60

        wait_until(freed, 120, "the state of the first days to be freed")
    assert stream.dropped == 0
    assert stream.table() == log.batch("requests-per-minute")
    assert count(stream.table()) == 240


def test_producers_whose_clock_is_ahead_do_not_move_the_watermark(log: Log) -> None:
    ahead = 70 * 365 * DAY
    stream = log.stream("requests-per-minute", 1_000_000)
    with stream.live() as query:
        # the watermark moves while the second part is written, and then the third one is read
        log.append(shipped(n, ahead + n, n) for n in range(3))
        for part in range(3):
            log.append(shipped(10 + 3 * part + n, 60 * part, n) for n in range(3))
            query.processAllAvailable()
    assert stream.dropped == 0
    assert stream.table() == log.batch("requests-per-minute")
    assert count(stream.table()) == 12


def test_a_view_that_allows_more_lateness_loses_nothing(log: Log) -> None:
    decoder = replace(WEBLOG, event_time=EventTimeBounds("time", 3 * DAY, EARLINESS))
    stream = log.stream("requests-per-minute", 1_000_000, decoder=decoder)
    with stream.live() as query:
        # the watermark moves while the second part is written; the third one is two days late
        for part, behind in enumerate((0, 0, 2 * DAY)):
            second = 3 * DAY + 60 * part - behind
            log.append(shipped(3 * part + n, second, n, behind=behind) for n in range(3))
            query.processAllAvailable()
    assert stream.dropped == 0
    assert count(stream.table()) == 9


def seconds(mark: str) -> float:
    return datetime.fromisoformat(mark).timestamp()


def random_flights(seed: int, times: int = 2) -> list[Shipped]:
    """Flights with several records each, with different destinations and aircraft, in any order."""
    chosen = random.Random(seed)
    records = []
    for number in range(40):
        for _ in range(times):
            key, value = flight(
                flight=number,
                dest=chosen.choice(["IAH", "ORD", "BOS"]),
                tailnum=f"N{chosen.randrange(9)}",
                dep_delay=chosen.randrange(5),
                minute=number % 60,
            )
            assert key is not None
            at = 1000 * (TEN + chosen.randrange(100))
            records.append((key, value, at, partition_of(key)))
    chosen.shuffle(records)
    return records


@pytest.mark.parametrize("name", ["airports", "departures", "latest-departure"])
def test_flights_in_several_runs_give_the_table_of_a_batch_job(log: Log, name: str) -> None:
    lines = random_flights(5)
    backfill, live = log.stream(name, 30), log.stream(name, 1_000_000)
    for part in (lines[:30], lines[30:]):
        log.append(part)
        live.run()
    wanted = log.batch(name)
    assert live.table() == wanted
    assert backfill.run().table() == wanted


Advance = Callable[..., int | None]
DELAY = 1000 * DISORDER_S


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def advance(clock: list[float]) -> Advance:
    low = LowWatermark(lambda: clock[0])

    def after(read: dict[str, int], caught_up: str = "01") -> int | None:
        found = low.advance("01", read, caught_up)
        return None if found is None else found + DELAY

    return after


def test_the_slowest_partition_holds_the_watermark(advance: Advance) -> None:
    assert advance({"0": 10_000}) is None  # the other one may have records of any time
    assert advance({"0": 10_000, "1": 5}) == 5
    assert advance({"1": 7}) == 7
    assert advance({"1": 3}) == 7
    assert advance({"1": 20_000}) == 10_000


def test_a_partition_without_new_records_stops_holding_the_watermark(
    advance: Advance, clock: list[float]
) -> None:
    assert advance({"0": 10_000, "1": 5}) == 5
    clock[0] = DISORDER_S + 1
    assert advance({"0": 20_000}, caught_up="0") == 5  # it has unread records
    assert advance({"0": 20_000}) == 20_000
    assert advance({"1": 6}) == 6
    clock[0] *= 3
    assert advance({}) is None


class Tracker:
    """A fake session with one query, with the methods that `Watermarks` calls."""

    def __init__(self) -> None:
        self.watermark = 0
        self._jsparkSession = self
        self.sparkContext = self

    def getLocalProperty(self, _: str) -> str:
        return "1"

    def streams(self) -> Tracker:
        return self

    def get(self, _: str) -> Tracker:
        return self

    def streamingQuery(self) -> Tracker:
        return self

    def watermarkTracker(self) -> Tracker:
        return self

    def currentWatermark(self) -> int:
        return self.watermark

    def setWatermark(self, watermark: int) -> None:
        self.watermark = watermark


@pytest.mark.parametrize(("partitions", "moved"), [("01", True), ("012", False)])
def test_a_partition_that_was_added_since_the_start_holds_the_watermark(
    partitions: str, moved: bool
) -> None:
    tracker: Any = Tracker()
    offsets = json.dumps({"weblog": dict.fromkeys(partitions, 5)})
    source = SimpleNamespace(endOffset=offsets, latestOffset=offsets)
    read = Row(**{"0": 2 * DELAY + 9, "1": 2 * DELAY + 7})
    progress = SimpleNamespace(
        observedMetrics={"read weblog": read}, sources=[source], runId=1, id=1
    )
    event: Any = SimpleNamespace(progress=progress)
    watermarks = Watermarks(tracker)
    watermarks.onQueryProgress(event)
    assert tracker.watermark == 0, "Spark may be planning the next micro-batch"
    watermarks.advance()
    assert tracker.watermark == (DELAY + 7 if moved else 0)
