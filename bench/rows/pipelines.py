"""Derived views: how soon a record's result can be read, and how fast a job catches up, compared
with a Kafka Streams application that derives the same views on the same broker."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles

from bench import http_client
from bench.plan import Plan
from bench.proc import cpu_seconds, peak_rss_mb, pss_mb
from bench.report import Comparison, Row, Target, compare
from bench.rows.ingest import Replay
from bench.spark.jobs import Job, Lag, Writer, fill, spark_job, streams_job, views_toml
from bench.stack import Server, Stack
from bench.subject import Served, Subject
from local.errors import LocalError

_STREAMS = "Kafka Streams"
_CATCH_UP = {"latest-departure": "flights", "word-count": "texts"}
_TIMEOUT = 20.0  # s until the result of a record can be read
_POLL = 0.002  # s
_PAUSE = 0.3  # s at most between two records, so that they do not follow the trigger's rhythm


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of view: the topic of its record, the record of a key, and the paths of the result
    at our proxy and at the Kafka Streams application."""

    name: str
    topic: str
    record: Callable[[str], tuple[str | None, str]]
    ours: str
    reference: str
    target: Target | None


def _flight(key: str) -> tuple[str | None, str]:
    flight = {
        "tailnum": key, "carrier": "UA", "flight": 1545, "origin": "EWR", "dest": "IAH",
        "time_hour": "2013-01-01T10:00:00Z", "minute": 15, "dep_time": 517, "dep_delay": 2,
    }  # fmt: skip
    return key, json.dumps(flight)


KINDS = (
    Kind(
        "pipeline-map", "flights", _flight,
        "/departures/{}/windows?limit=1", "/departures/{}", None,
    ),
    Kind(
        "pipeline-aggregate", "texts", lambda key: (None, key),
        "/words/{}", "/word-count/{}", Target(500.0),
    ),
)  # fmt: skip


_REAL_TIME = Target(50.0)  # ms, of pipeline-map as a real-time view


def steps(plan: Plan) -> int:
    return plan.rounds * 2 * len(_CATCH_UP) + 2 * len(KINDS) + 1


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    counts = fill(stack, plan.texts)
    rows: list[Row] = []
    for view, topic in _CATCH_UP.items():
        ours = Subject[Replay](f"catch-up-{view}")
        theirs = Subject[Replay](f"streams-catch-up-{view}", reference=True)
        for _ in range(plan.rounds):
            for subject, start in ((ours, spark_job), (theirs, streams_job)):
                subject.measure(
                    partial(_catch_up, stack, start, view=view, topic=topic, count=counts[topic])
                )
                yield [*rows, *_catch_up_rows(ours, theirs)]
        rows += _catch_up_rows(ours, theirs)
    latencies = {kind: Latencies(kind) for kind in KINDS}
    for of_kinds in (
        _our_latencies(stack, plan, {kind: each.ours for kind, each in latencies.items()}),
        _our_latencies(stack, plan, {KINDS[0]: latencies[KINDS[0]].real_time}, real_time=True),
        _reference_latencies(stack, plan, {kind: each.theirs for kind, each in latencies.items()}),
    ):
        for _ in of_kinds:
            yield [*rows, *(row for each in latencies.values() for row in each.rows())]


class Latencies:
    """The latencies (ms) of a kind of view: of our micro-batches, of our real-time view and of the
    Kafka Streams application."""

    def __init__(self, kind: Kind) -> None:
        self._target = kind.target
        self.ours = Subject[list[float]](kind.name)
        self.theirs = Subject[list[float]](f"streams-{kind.name}", reference=True)
        self.real_time = Subject[list[float]](f"{kind.name}-real-time")

    def rows(self) -> list[Row]:
        return [
            self._row(self.ours, _STREAMS, self.theirs, self._target),
            self._row(self.theirs),
            self._row(self.real_time, "micro-batches", self.ours, _REAL_TIME),
        ]

    def _row(
        self,
        subject: Subject[list[float]],
        name: str = "",
        other: Subject[list[float]] | None = None,
        target: Target | None = None,
    ) -> Row:
        beside: list[Comparison] = []
        if other is not None:
            beside += compare("p50", "ms", subject.of(median), name, other.of(median), target)
            beside += compare("p99", "ms", subject.of(_p99), name, other.of(_p99))
        return subject.row(p50_ms=median, p99_ms=_p99, beside=beside)


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]


def _catch_up(
    stack: Stack, start: Callable[[Stack, list[str]], Job], view: str, topic: str, count: int
) -> Replay:
    """Starts a job with one view, measures it from when it runs, and stops it."""
    job = start(stack, [view])
    pid = job.server.pid
    try:
        job.wait(stack, 120)
        began, cpu = time.monotonic(), cpu_seconds(pid)
        _wait_caught_up(stack, job, view, topic)
        seconds, cpu = time.monotonic() - began, cpu_seconds(pid) - cpu
        return Replay(count, seconds, cpu, peak_rss_mb(pid), pss_mb(pid))
    finally:
        stack.stop(job.server)


def _wait_caught_up(stack: Stack, job: Job, view: str, topic: str) -> None:
    lag = Lag(stack.servers, job.groups[view], topic)
    stack.wait(lag.is_zero, f"{view} to catch up", 300, reference=job.server.reference)
    lag.close()


def _catch_up_rows(ours: Subject[Replay], theirs: Subject[Replay]) -> list[Row]:
    columns: tuple[tuple[str, str, Callable[[Replay], float]], ...] = (
        ("rate", "records/s", lambda each: each.rate),
        ("CPU per record", "µs", lambda each: each.cpu_us),
        ("memory", "MB", lambda each: each.pss_mb),
    )
    beside = []
    for what, unit, get in columns:
        beside += compare(what, unit, ours.of(get), _STREAMS, theirs.of(get))

    def row(subject: Subject[Replay], comparisons: list[Comparison]) -> Row:
        return subject.row(
            rps=lambda each: each.rate,
            cpu_us=lambda each: each.cpu_us,
            rss_mb=lambda each: each.pss_mb,
            more={"seconds": lambda each: each.seconds},
            beside=comparisons,
        )

    return [row(ours, beside), row(theirs, [])]


Found = dict[Kind, Subject[list[float]]]


def _our_latencies(
    stack: Stack, plan: Plan, found: Found, *, real_time: bool = False
) -> Iterator[None]:
    """Measures through the proxy, while all views of the demo are live."""
    name = stack.new_name("demo")
    backend = stack.launch_backend(name, name, views=views_toml())
    stack.wait_ready(backend)
    proxy = stack.launch_proxy(backend)
    job = spark_job(stack, real_time=real_time)
    job.wait(stack, 300)
    for view, topic in {**_CATCH_UP, "departures": "flights"}.items():
        _wait_caught_up(stack, job, view, topic)
    for kind, subject in found.items():
        subject.measure(partial(_latencies, stack, kind, proxy, kind.ours, plan.freshness))
        yield
    stack.stop(job.server, proxy, backend)


def _reference_latencies(stack: Stack, plan: Plan, found: Found) -> Iterator[None]:
    def launch() -> list[Server]:
        job = streams_job(stack, ["word-count", "latest-departure", "departures"])
        job.wait(stack, 120)
        for view, topic in _CATCH_UP.items():
            _wait_caught_up(stack, job, view, topic)
        return [job.server]

    streams = Served(_STREAMS, launch, reference=True)

    def latencies(kind: Kind) -> list[float]:
        return _latencies(stack, kind, streams.server, kind.reference, plan.freshness)

    for kind, subject in found.items():
        subject.measure(partial(latencies, kind))
        yield


def _latencies(stack: Stack, kind: Kind, server: Server, path: str, count: int) -> list[float]:
    """ms from the write of a record with a new key until its result can be read."""
    writer = Writer(stack.servers)
    found: list[float] = []
    warm_up = 5
    for number in range(count + warm_up):
        key = f"{kind.name.replace('-', '_')}_{random.getrandbits(40):x}_{number}"
        began = time.monotonic()
        writer.write(kind.topic, *kind.record(key))
        while not _is_there(server.port, path.format(key)):
            if time.monotonic() - began > _TIMEOUT:
                raise LocalError(f"{kind.name}: no result of a record after {_TIMEOUT:g} s")
            time.sleep(_POLL)
        found.append(1000 * (time.monotonic() - began))
        time.sleep(random.uniform(0, _PAUSE))
    return found[warm_up:]


def _is_there(port: int, path: str) -> bool:
    answer = http_client.get(port, path)
    if answer is None or answer.status != 200:
        return False
    document = answer.json()
    # A key without windows has an empty list of them.
    return not isinstance(document, dict) or document.get("items") != []
