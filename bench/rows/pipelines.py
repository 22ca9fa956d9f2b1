"""Derived views: how soon a record's result can be read, and how fast a job catches up, compared
with a Kafka Streams application that derives the same views on the same broker."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median, quantiles

from bench import http_client
from bench.plan import Plan
from bench.proc import cpu_seconds, peak_rss_mb, pss_mb
from bench.report import Comparison, Row, Target
from bench.rows.ingest import Replay
from bench.spark.jobs import Job, Lag, Writer, fill, spark_job, streams_job, views_toml
from bench.stack import Server, Stack
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


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    counts = fill(stack, plan.texts)
    rows: list[Row] = []
    for view, topic in _CATCH_UP.items():
        ours: list[Replay] = []
        reference: list[Replay] = []
        for _ in range(plan.rounds):
            ours.append(_catch_up(stack, spark_job(stack, [view]), view, topic, counts[topic]))
            step()
            job = streams_job(stack, [view])
            reference.append(_catch_up(stack, job, view, topic, counts[topic]))
            step()
        rows += _catch_up_rows(view, ours, reference)
    latencies = _our_latencies(stack, plan, step, KINDS)
    real_time = _our_latencies(stack, plan, step, KINDS[:1], real_time=True)
    for kind, beside in _reference_latencies(stack, plan, step).items():
        rows += _latency_rows(kind, latencies[kind], beside)
        if kind in real_time:
            rows.append(_real_time_row(kind, real_time[kind], latencies[kind]))
    return rows


def _catch_up(stack: Stack, job: Job, view: str, topic: str, count: int) -> Replay:
    """Measures a job with one view that has just started, and stops it."""
    stack.wait(job.is_running, f"{job.server.name} to run", 120)
    began, cpu = time.monotonic(), cpu_seconds(job.server.pid)
    _wait_caught_up(stack, job, view, topic)
    seconds, cpu = time.monotonic() - began, cpu_seconds(job.server.pid) - cpu
    pid = job.server.pid
    found = Replay(count, seconds, cpu, peak_rss_mb(pid), pss_mb(pid))
    stack.stop(job.server)
    return found


def _wait_caught_up(stack: Stack, job: Job, view: str, topic: str) -> None:
    lag = Lag(stack.servers, job.groups[view], topic)
    stack.wait(lag.is_zero, f"{view} to catch up", 300)
    lag.close()


def _catch_up_rows(view: str, ours: list[Replay], reference: list[Replay]) -> list[Row]:
    columns: tuple[tuple[str, str, Callable[[Replay], float]], ...] = (
        ("rate", "records/s", lambda each: each.rate),
        ("CPU per record", "µs", lambda each: each.cpu_us),
        ("memory", "MB", lambda each: each.pss_mb),
    )
    beside = [
        Comparison.of(what, unit, list(map(get, ours)), _STREAMS, list(map(get, reference)))
        for what, unit, get in columns
    ]

    def row(name: str, found: list[Replay], comparisons: list[Comparison]) -> Row:
        return Row(
            name,
            rps=median(each.rate for each in found),
            cpu_us=median(each.cpu_us for each in found),
            rss_mb=median(each.pss_mb for each in found),
            more={"seconds": median(each.seconds for each in found)},
            beside=comparisons,
        )

    return [
        row(f"catch-up-{view}", ours, beside),
        row(f"streams-catch-up-{view}", reference, []),
    ]


def _our_latencies(
    stack: Stack,
    plan: Plan,
    step: Callable[[], None],
    kinds: Iterable[Kind],
    *,
    real_time: bool = False,
) -> dict[Kind, list[float]]:
    """ms through the proxy, while all views of the demo are live."""
    name = stack.new_name("demo")
    backend = stack.launch_backend(name, name, views=views_toml())
    stack.wait_ready(backend)
    proxy = stack.launch_proxy(backend)
    job = spark_job(stack, real_time=real_time)
    stack.wait(job.is_running, "all views to start", 300)
    for view, topic in {**_CATCH_UP, "departures": "flights"}.items():
        _wait_caught_up(stack, job, view, topic)
    found: dict[Kind, list[float]] = {}
    for kind in kinds:
        found[kind] = _latencies(stack, kind, proxy, kind.ours, plan.freshness)
        step()
    stack.stop(job.server, proxy, backend)
    return found


def _reference_latencies(
    stack: Stack, plan: Plan, step: Callable[[], None]
) -> dict[Kind, list[float]]:
    job = streams_job(stack, ["word-count", "latest-departure", "departures"])
    stack.wait(job.is_running, "Kafka Streams to run", 120)
    for view, topic in _CATCH_UP.items():
        _wait_caught_up(stack, job, view, topic)
    found: dict[Kind, list[float]] = {}
    for kind in KINDS:
        found[kind] = _latencies(stack, kind, job.server, kind.reference, plan.freshness)
        step()
    stack.stop(job.server)
    return found


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


def _latency_rows(kind: Kind, ours: list[float], reference: list[float]) -> list[Row]:
    p50, p99 = _p50_p99(ours)
    other_p50, other_p99 = _p50_p99(reference)
    beside = [
        Comparison.of("p50", "ms", [p50], _STREAMS, [other_p50], kind.target),
        Comparison.of("p99", "ms", [p99], _STREAMS, [other_p99]),
    ]
    return [
        Row(kind.name, p50_ms=p50, p99_ms=p99, beside=beside),
        Row(f"streams-{kind.name}", p50_ms=other_p50, p99_ms=other_p99),
    ]


def _real_time_row(kind: Kind, found: list[float], micro_batches: list[float]) -> Row:
    p50, p99 = _p50_p99(found)
    other_p50, other_p99 = _p50_p99(micro_batches)
    beside = [
        Comparison.of("p50", "ms", [p50], "micro-batches", [other_p50], _REAL_TIME),
        Comparison.of("p99", "ms", [p99], "micro-batches", [other_p99]),
    ]
    return Row(f"{kind.name}-real-time", p50_ms=p50, p99_ms=p99, beside=beside)


def _p50_p99(values: list[float]) -> tuple[float, float]:
    return median(values), quantiles(values, n=100, method="inclusive")[98]
