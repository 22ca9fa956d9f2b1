"""Derived views: how fast a job catches up, and how soon a record's result can be read, compared
with a Kafka Streams application that derives the same views on the same broker."""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from bench.feeder import Feeder
from bench.load import Measurement
from bench.plan import Plan
from bench.proc import cpu_seconds, pss_mb
from bench.references import servers
from bench.report import Target
from bench.stack import Server, Stack
from bench.subject import Baseline, Subject
from local.demo.datasets import FLIGHTS, TEXTS, Dataset, demo_topics, texts
from local.demo.load import end_offsets, load
from local.errors import LocalError
from local.kafka.broker import quiet_admin
from local.kafka.jars import spark_jars
from local.kafka.topics import create_topics
from local.settings import REPOSITORY
from local.spark_views import declared_views

VIEWS_TOML = REPOSITORY / "views.toml"
_DEPARTURES = 'spark_view = "spark.views.departures:VIEW"\n'
_CATCH_UP = {"latest-departure": "flights", "word-count": "texts"}
_RUN_TIMEOUT_S, _CATCH_UP_TIMEOUT_S = 300.0, 300.0
_TIMEOUT_S = 20.0  # until the result of a record can be read
_POLL_S = 0.002
_PAUSE_S = 0.3  # at most between two records, so that they do not follow the trigger's rhythm
_WARM_UP = 5  # records


def pipelines(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    create_topics(quiet_admin(stack.servers), demo_topics(declared_views(VIEWS_TOML).values()))
    load(stack.servers, FLIGHTS)
    lines = itertools.chain.from_iterable(texts() for _ in itertools.count())
    limited_texts = Dataset(
        TEXTS.topic, lambda: plan.texts, lambda: itertools.islice(lines, plan.texts)
    )
    load(stack.servers, limited_texts)
    for view, topic in _CATCH_UP.items():
        yield _catching_up(
            stack, view, topic, FLIGHTS.count() if topic == "flights" else plan.texts
        )
    yield from _latencies(stack, plan)


@dataclass(frozen=True, slots=True)
class Job:
    """A job that has started. `groups`: the consumer group of each view."""

    server: Server
    groups: dict[str, str]


def spark_job(stack: Stack, *views: str, real_time: bool = False) -> Job:
    """The Spark job, from the start of the raw topics; by default with all views of the demo.
    Returns when its views run. `real_time`: as in `views_toml`."""
    name = stack.new_name("spark")
    folder = stack.folder_of(name)
    folder.mkdir()
    declared, progress = folder / "views.toml", folder / "progress.json"
    declared.write_text(views_toml(real_time=real_time))
    command = [sys.executable, "-m", "spark.run", *views]
    command += ["--bootstrap-servers", stack.servers, "--views-toml", str(declared)]
    command += ["--checkpoint-dir", str(folder / "checkpoints"), "--progress", str(progress)]
    command += ["--jars", str(spark_jars()[0].parent), "--group-prefix", f"{name}-"]

    def is_running() -> bool:
        statuses = _progress(progress).values()
        return bool(statuses) and all(status["state"] == "running" for status in statuses)

    server = stack.launch(name, lambda _: command)
    stack.wait(is_running, "the Spark job to run", _RUN_TIMEOUT_S)
    return Job(server, {view: f"{name}-{view}" for view in _progress(progress)})


def _progress(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def views_toml(*, real_time: bool = False) -> str:
    """The demo's views.toml; with `real_time`, `departures` is a real-time view."""
    text = VIEWS_TOML.read_text()
    assert _DEPARTURES in text, "without it, the row would measure micro-batches"
    return text.replace(_DEPARTURES, f'{_DEPARTURES}trigger = "real-time"\n') if real_time else text


def streams_job(stack: Stack, *views: str) -> Job:
    """The Kafka Streams application, from the start of the raw topics. Returns when it runs."""
    name = stack.new_name("streams")
    server = servers.streams(stack, name, "DemoViews", name, ",".join(views))

    def is_running() -> bool:
        return server.get("/state").body == b'"RUNNING"'

    stack.wait(is_running, f"{name} to run", _RUN_TIMEOUT_S, reference=True)
    return Job(server, dict.fromkeys(views, name))


def _wait_caught_up(stack: Stack, job: Job, view: str, topic: str) -> None:
    """Waits until the view has committed the current end offsets of its topic."""
    consumer = Consumer({"bootstrap.servers": stack.servers, "group.id": job.groups[view]})
    ends = end_offsets(stack.servers, topic)
    partitions = [TopicPartition(topic, number) for number in ends]

    def has_caught_up() -> bool:
        committed = consumer.committed(partitions, 10)
        return sum(max(0, partition.offset) for partition in committed) >= sum(ends.values())

    what = f"{view} to catch up"
    stack.wait(has_caught_up, what, _CATCH_UP_TIMEOUT_S, reference=job.server.reference)
    consumer.close()


def _catching_up(stack: Stack, view: str, topic: str, count: int) -> list[Subject]:
    """Jobs with one view, measured from when they run until they have read the topic."""

    def measure(start: Callable[..., Job], _: int | None) -> Measurement:
        job = start(stack, view)
        pid = job.server.pid
        try:
            began, cpu = time.monotonic(), cpu_seconds(pid)
            _wait_caught_up(stack, job, view, topic)
            seconds, cpu_us = time.monotonic() - began, (cpu_seconds(pid) - cpu) / count * 1e6
            rate = count / seconds
            values = {"rps": rate, "cpu_us": cpu_us, "seconds": seconds, "rss_mb": pss_mb(pid)}
            return Measurement(values)
        finally:
            stack.stop(job.server)

    name = f"streams-catch-up-{view}"
    baselines = [Baseline(quantity, name) for quantity in ("rps", "cpu_us", "rss_mb")]
    return [
        Subject(f"catch-up-{view}", partial(measure, spark_job), baselines=baselines),
        Subject(name, partial(measure, streams_job), reference=True),
    ]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of view: the topic of its record, the record of a key, and the paths of the result
    at our proxy and at the Kafka Streams application."""

    name: str
    topic: str
    record: Callable[[str], tuple[bytes | None, str]]
    ours: str
    reference: str


def _flight(key: str) -> tuple[bytes, str]:
    flight = {
        "tailnum": key, "carrier": "UA", "flight": 1545, "origin": "EWR", "dest": "IAH",
        "time_hour": "2013-01-01T10:00:00Z", "minute": 15, "dep_time": 517, "dep_delay": 2,
    }  # fmt: skip
    return key.encode(), json.dumps(flight)


MAP = Kind("pipeline-map", "flights", _flight, "/departures/{}/windows?limit=1", "/departures/{}")
AGGREGATE = Kind(
    "pipeline-aggregate", "texts", lambda key: (None, key), "/words/{}", "/word-count/{}"
)
# the kind, the reference, and the target (p50) of each row
_MICRO_BATCHES = {
    MAP.name: (MAP, f"streams-{MAP.name}", None),
    AGGREGATE.name: (AGGREGATE, f"streams-{AGGREGATE.name}", Target(500.0)),
}
_REAL_TIME = {f"{MAP.name}-real-time": (MAP, MAP.name, Target(50.0))}


def _latencies(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Latencies while all views of the demo are live: first of micro-batches and of a real-time
    view, through the proxy, then of the Kafka Streams application."""
    for rows in (_MICRO_BATCHES, _REAL_TIME):
        name = stack.new_name("demo")
        backend = stack.launch_backend(name, name, views=views_toml())
        stack.wait_ready(backend)
        proxy = stack.launch_proxy(backend)
        job = spark_job(stack, real_time=rows is _REAL_TIME)
        _wait_all(stack, job)
        yield [
            Subject(
                name,
                partial(_latency, stack, plan, kind, proxy, kind.ours),
                baselines=[Baseline("p50_ms", reference, target), Baseline("p99_ms", reference)],
            )
            for name, (kind, reference, target) in rows.items()
        ]
        stack.stop(job.server, proxy, backend)
    yield _latencies_of_streams(stack, plan)


def _latencies_of_streams(stack: Stack, plan: Plan) -> list[Subject]:
    def start() -> Server:
        job = streams_job(stack, "word-count", "latest-departure", "departures")
        _wait_all(stack, job)
        return job.server

    def latency(kind: Kind, _: int | None) -> Measurement:
        if server is None:
            raise LocalError(subjects[0].failure)
        return _latency(stack, plan, kind, server, kind.reference)

    subjects = [
        Subject(f"streams-{kind.name}", partial(latency, kind), reference=True)
        for kind in (MAP, AGGREGATE)
    ]
    server = subjects[0].attempt(start)
    return subjects


def _wait_all(stack: Stack, job: Job) -> None:
    for view, topic in {**_CATCH_UP, "departures": "flights"}.items():
        _wait_caught_up(stack, job, view, topic)


def _latency(
    stack: Stack, plan: Plan, kind: Kind, server: Server, path: str, _: int | None = None
) -> Measurement:
    """Measures the time (ms) from the write of a record with a new key until its result can be
    read."""
    feeder = Feeder(stack.servers, linger_ms=0)
    latencies_ms: list[float] = []
    for number in range(_WARM_UP + plan.freshness):
        key = f"{kind.name.replace('-', '_')}_{random.getrandbits(40):x}_{number}"
        name, text = kind.record(key)
        began = time.monotonic()
        feeder.produce(kind.topic, text.encode(), name)
        feeder.confirm()
        while not _is_there(server, path.format(key)):
            if time.monotonic() - began > _TIMEOUT_S:
                raise LocalError(f"{kind.name}: no result of a record after {_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)
        latencies_ms.append(1000 * (time.monotonic() - began))
        time.sleep(random.uniform(0, _PAUSE_S))
    measured = latencies_ms[_WARM_UP:]
    p99 = quantiles(measured, n=100, method="inclusive")[98]
    return Measurement({"p50_ms": median(measured), "p99_ms": p99})


def _is_there(server: Server, path: str) -> bool:
    answer = server.get(path)
    if answer.status != 200:
        return False
    document = json.loads(answer.body)
    # A key without windows has an empty list of them.
    return not isinstance(document, dict) or document.get("items") != []
