"""New instances: how fast they read a topic (`ingest`, compared with a consumer that stores
nothing), and when their keys are readable (`launch`, compared with a Kafka Streams application)."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from bench import records
from bench.load import Measurement
from bench.plan import Plan
from bench.proc import cpu_seconds, peak_rss_mb
from bench.records import Table, views_toml
from bench.report import Target
from bench.rows.instances import applications, wrong_reads
from bench.stack import Server, Stack
from bench.subject import Baseline, Subject, run_reference

# s between two samples. A sample takes CPU time from ingest, which was 9 % slower with one every
# 0.02 s. Only the last sample must be taken without delay.
_SAMPLE_EVERY_S, _SAMPLE_EVERY_NEAR_THE_END_S = 0.1, 0.02
_NEAR_THE_END = 0.95  # of the records
_SAMPLE_EVERY_PER_RECORD = 1e-7  # s per record: a small topic has several samples, too


def ingest(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """An empty instance reads a whole topic."""
    reference = ["consume", stack.servers, stack.table.topic, *range(records.PARTITIONS)]
    baselines = [
        Baseline("rps", "consume", Target(0.6, at_least=True, is_ratio=True)),
        Baseline("cpu_us", "consume"),
        Baseline("rss_mb", "consume", Target(250.0)),
    ]
    yield [
        Subject("ingest", lambda _: replay(stack), baselines=baselines),
        Subject("consume", lambda _: run_reference(*reference), reference=True),
    ]


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of an instance that catches up: time (s), CPU seconds, records applied."""

    at: float
    cpu: float
    applied: int
    answerable: bool


def between(samples: Sequence[Sample]) -> dict[str, float]:
    """The quantities from the first sample with records to the answerable one.

    Records that were applied before, and the start of the process, do not count.
    """
    first = next(sample for sample in samples if sample.applied)
    last = next(sample for sample in samples if sample.answerable)
    count, seconds = last.applied - first.applied, last.at - first.at
    if count <= 0:
        raise ValueError("too few records: all were applied between two samples")
    cpu_us = (last.cpu - first.cpu) / count * 1e6
    return {"rps": count / seconds, "cpu_us": cpu_us, "seconds": seconds}


def replay(stack: Stack, table: Table | None = None) -> Measurement:
    """Measures a new instance from its start until it is answerable, and stops it. `table`: its
    view; by default, that of the stack. `disk_mb`: the entries, and the keys of indexes."""
    table = table or stack.table
    name = stack.new_name("ingest")
    backend = stack.launch_backend(name, name, views=views_toml([table]))
    samples: list[Sample] = []
    next_at = 0.0  # s, monotonic

    def answerable() -> bool:
        nonlocal next_at
        now = time.monotonic()
        if now < next_at or (sample := _sample(backend)) is None:
            return False
        samples.append(sample)
        if sample.applied < _NEAR_THE_END * table.count:
            next_at = now + min(_SAMPLE_EVERY_S, _SAMPLE_EVERY_PER_RECORD * table.count)
        return sample.answerable

    timeout = max(120.0, table.count / 15_000)
    stack.wait(answerable, "the instance to be answerable", timeout, _SAMPLE_EVERY_NEAR_THE_END_S)
    values = {**between(samples), "rss_mb": peak_rss_mb(backend.pid)}
    stack.stop(backend)
    size = run_reference("indexed", stack.folder_of(name) / table.view, "size")
    shutil.rmtree(stack.folder_of(name))
    return Measurement({**values, **size.values})


def _sample(backend: Server) -> Sample | None:
    answer = backend.get("/instance")
    if answer.status != 200:
        return None
    partitions = json.loads(answer.body)["partitions"]
    return Sample(
        at=time.monotonic(),
        cpu=cpu_seconds(backend.pid),
        applied=sum(partition.get("position", 0) for partition in partitions),
        answerable=len(partitions) == records.PARTITIONS
        and all(partition["state"] == "answerable" for partition in partitions),
    )


def launch(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Two new instances: the seconds from their start until all keys are readable."""

    def ours() -> list[Server]:
        group = stack.new_name("group")
        servers = [stack.launch_backend(stack.new_name("launch"), group) for _ in range(2)]
        stack.wait_ready(*servers)
        return servers

    def measure(start: Callable[[], Sequence[Server]], _: int | None) -> Measurement:
        began = time.monotonic()
        servers = start()
        seconds = time.monotonic() - began
        numbers = random.sample(range(stack.table.count), min(plan.sample, stack.table.count))
        wrong = [
            text for n, server in enumerate(servers) for text in wrong_reads(server, numbers[n::2])
        ]
        stack.stop(*servers)
        return Measurement({"seconds": seconds}, wrong)

    streams = partial(measure, lambda: applications(stack))
    baselines = [Baseline("seconds", "launch-streams", Target(0.5, is_ratio=True))]
    yield [
        Subject("launch", partial(measure, ours), baselines=baselines),
        Subject("launch-streams", streams, reference=True),
    ]
