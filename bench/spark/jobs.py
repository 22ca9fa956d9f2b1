"""The demo's raw topics, and the two jobs that derive its views: Spark's and a Kafka Streams
application, which is the reference."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import http_client
from bench.stack import Server, Stack
from local.demo.datasets import FLIGHTS, TEXTS, Dataset, Record, demo_topics, texts
from local.demo.load import load
from local.kafka.broker import quiet_admin
from local.kafka.jars import spark_jars, streams_class_path
from local.kafka.java import find_java
from local.kafka.topics import create_topics
from local.settings import REPOSITORY
from local.spark_views import declared_views

VIEWS_TOML = REPOSITORY / "views.toml"
_DEPARTURES = 'spark_view = "spark.views.departures:VIEW"\n'
_STREAMS = Path(__file__).parents[1] / "references" / "streams" / "DemoViews.java"
_START_TIMEOUT = 120.0  # s


@dataclass(frozen=True, slots=True)
class Job:
    """A running job. `groups`: the consumer group of each view. `is_running()`: whether its views
    have started."""

    server: Server
    groups: dict[str, str]
    is_running: Callable[[], bool]

    def wait(self, stack: Stack, timeout: float) -> None:
        """Waits until its views have started."""
        what = f"{self.server.name} to run"
        stack.wait(self.is_running, what, timeout, reference=self.server.reference)


def fill(stack: Stack, text_count: int) -> dict[str, int]:
    """Creates the demo's topics, and writes all flights and `text_count` texts. Returns the number
    of records by topic."""
    create_topics(quiet_admin(stack.servers), demo_topics(declared_views(VIEWS_TOML).values()))
    load(stack.servers, FLIGHTS)
    load(stack.servers, Dataset(TEXTS.topic, lambda: text_count, lambda: _texts(text_count)))
    return {"flights": FLIGHTS.count(), "texts": text_count}


def _texts(count: int) -> Iterator[Record]:
    """The demo's texts, again and again."""
    return itertools.islice(
        itertools.chain.from_iterable(texts() for _ in itertools.count()), count
    )


def views_toml(*, real_time: bool = False) -> str:
    """The demo's views.toml; with `real_time`, `departures` is a real-time view."""
    text = VIEWS_TOML.read_text()
    assert _DEPARTURES in text, "without it, the row would measure micro-batches"
    return text.replace(_DEPARTURES, f'{_DEPARTURES}trigger = "real-time"\n') if real_time else text


def spark_job(
    stack: Stack,
    views: Iterable[str] = (),
    options: Iterable[str] = (),
    *,
    real_time: bool = False,
) -> Job:
    """The Spark job, from the start of the raw topics; by default with all views of the demo.
    `real_time`: as in `views_toml`."""
    name = stack.new_name("spark")
    folder = stack.folder_of(name)
    folder.mkdir()
    declared = folder / "views.toml"
    declared.write_text(views_toml(real_time=real_time))
    progress = folder / "progress.json"
    command = [sys.executable, "-m", "spark.run", *views]
    command += ["--bootstrap-servers", stack.servers, "--views-toml", str(declared)]
    command += ["--checkpoint-dir", str(folder / "checkpoints"), "--progress", str(progress)]
    command += ["--jars", str(spark_jars()[0].parent), "--group-prefix", f"{name}-", *options]

    def is_running() -> bool:
        statuses = _progress(progress)
        return bool(statuses) and all(each["state"] == "running" for each in statuses.values())

    server = stack.launch_command(name, command)
    stack.wait(lambda: _progress(progress), "the Spark job to start", _START_TIMEOUT)
    return Job(server, {view: f"{name}-{view}" for view in _progress(progress)}, is_running)


def _progress(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def streams_job(stack: Stack, views: Iterable[str]) -> Job:
    """The Kafka Streams application, from the start of the raw topics."""
    name = stack.new_name("streams")
    port = stack.free_port()
    command = [find_java(), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", streams_class_path(), str(_STREAMS)]
    command += [stack.servers, str(stack.folder_of(name)), name, str(port), ",".join(views)]

    def is_running() -> bool:
        answer = http_client.get(port, "/state")
        return answer is not None and answer.body == b'"RUNNING"'

    server = stack.launch_command(name, command, port, reference=True)
    return Job(server, dict.fromkeys(views, name), is_running)


class Lag:
    """How far a consumer group has read a topic."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
        found = self._consumer.list_topics(topic, 10).topics[topic].partitions
        self._partitions = [TopicPartition(topic, number) for number in found]
        ends = (self._consumer.get_watermark_offsets(each, 10)[1] for each in self._partitions)
        self._end = sum(ends)

    def is_zero(self) -> bool:
        """Whether the group has committed the offsets that were the ends at the beginning."""
        committed = self._consumer.committed(self._partitions, 10)
        return sum(max(0, each.offset) for each in committed) >= self._end

    def close(self) -> None:
        self._consumer.close()


class Writer:
    """Writes single records, without delay."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 0, "partitioner": "murmur2_random"}
        )

    def write(self, topic: str, key: str | None, value: str) -> None:
        """Returns when the broker has confirmed the record."""
        self._producer.produce(topic, value.encode(), None if key is None else key.encode())
        self._producer.flush(10)
