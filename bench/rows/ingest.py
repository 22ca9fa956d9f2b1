"""Ingest: an empty instance reads a whole topic, compared with a consumer that stores nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench import http_client, records
from bench.plan import Plan
from bench.proc import cpu_seconds, peak_rss_mb, pss_mb
from bench.report import Comparison, Row, Target, compare
from bench.stack import Server, Stack, run_reference
from bench.subject import Subject

RATE_TARGET = Target(0.6, at_least=True, of_ratio=True)
MEMORY_TARGET = Target(250.0)  # MB
_CONSUME = "bare confluent-kafka consume"
# s between two samples. Each takes CPU from ingest: with one every 0.02 s, it was 9 % slower. Only
# the last sample must be taken soon
_SAMPLE_EVERY, _SAMPLE_EVERY_NEAR_THE_END = 0.1, 0.02
_NEAR_THE_END = 0.95  # of the records
_SAMPLE_EVERY_PER_RECORD = 1e-7  # s; a topic with few records has several samples, too


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of an instance that catches up: time (s), CPU seconds, records applied."""

    at: float
    cpu: float
    applied: int
    answerable: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """The records that a process has read to catch up with a topic, and what it used for them."""

    records: int
    seconds: float
    cpu_s: float
    rss_mb: float
    pss_mb: float

    @property
    def rate(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.records * 1e6


def between(samples: Sequence[Sample]) -> tuple[int, float, float]:
    """Records, seconds and CPU seconds from the first sample with records to the answerable one.

    Records that were applied before, and the start of the process, do not count.
    """
    first = next(sample for sample in samples if sample.applied)
    last = next(sample for sample in samples if sample.answerable)
    if last.applied <= first.applied:
        raise ValueError("too few records: all were applied between two samples")
    return last.applied - first.applied, last.at - first.at, last.cpu - first.cpu


def steps(plan: Plan) -> int:
    return plan.rounds * 2


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    ours = Subject[Replay]("ingest")
    bare = Subject[Replay]("consume", reference=True)
    for _ in range(plan.rounds):
        ours.measure(lambda: replay(stack))
        yield _rows(ours, bare)
        bare.measure(lambda: _consume(stack))
        yield _rows(ours, bare)


def _consume(stack: Stack) -> Replay:
    partitions = [str(partition) for partition in range(records.PARTITIONS)]
    used = run_reference("consume", stack.servers, records.TOPIC, *partitions)
    memory = used["rss_mb"]
    return Replay(int(used["records"]), used["seconds"], used["cpu_s"], memory, memory)


def _rows(ours: Subject[Replay], bare: Subject[Replay]) -> list[Row]:
    beside = []
    for what, unit, get, target in _COMPARED:
        beside += compare(what, unit, ours.of(get), _CONSUME, bare.of(get), target)
    return [_row(ours, beside), _row(bare, [])]


_COMPARED: tuple[tuple[str, str, Callable[[Replay], float], Target | None], ...] = (
    ("rate", "records/s", lambda each: each.rate, RATE_TARGET),
    ("CPU per record", "µs", lambda each: each.cpu_us, None),
    ("peak memory", "MB", lambda each: each.rss_mb, MEMORY_TARGET),
)


def _row(subject: Subject[Replay], beside: list[Comparison]) -> Row:
    return subject.row(
        rps=lambda each: each.rate,
        cpu_us=lambda each: each.cpu_us,
        rss_mb=lambda each: each.rss_mb,
        more={
            "cpu_s": lambda each: each.cpu_s,
            "seconds": lambda each: each.seconds,
            "pss_mb": lambda each: each.pss_mb,
        },
        beside=beside,
    )


def replay(stack: Stack) -> Replay:
    """Measures a new instance from its start until it is answerable, and stops it."""
    name = stack.new_name("ingest")
    backend = stack.launch_backend(name, name)
    samples: list[Sample] = []
    next_at = 0.0  # s, monotonic

    def answerable() -> bool:
        nonlocal next_at
        now = time.monotonic()
        if now < next_at or (sample := _sample(backend)) is None:
            return False
        samples.append(sample)
        if sample.applied < _NEAR_THE_END * stack.count:
            next_at = now + min(_SAMPLE_EVERY, _SAMPLE_EVERY_PER_RECORD * stack.count)
        return sample.answerable

    timeout = max(120.0, stack.count / 15_000)
    stack.wait(answerable, "the instance to be answerable", timeout, _SAMPLE_EVERY_NEAR_THE_END)
    count, seconds, cpu = between(samples)
    found = Replay(count, seconds, cpu, peak_rss_mb(backend.pid), pss_mb(backend.pid))
    stack.stop(backend)
    return found


def _sample(backend: Server) -> Sample | None:
    answer = http_client.get(backend.port, "/instance")
    if answer is None or answer.status != 200:
        return None
    partitions = answer.json()["partitions"]
    return Sample(
        at=time.monotonic(),
        cpu=cpu_seconds(backend.pid),
        applied=sum(each.get("position", 0) for each in partitions),
        answerable=len(partitions) == records.PARTITIONS
        and all(each["state"] == "answerable" for each in partitions),
    )
