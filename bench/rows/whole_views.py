"""Queries of many keys: batches (`batch`), a whole view as a stream (`ndjson`), a ranking (`top`);
and point reads while a ranking runs, or while records arrive (`latency`)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from threading import Event

import urllib3

from bench import load, records
from bench.load import Measurement, Workload
from bench.plan import Plan
from bench.proc import cpu_seconds, peak_rss_mb, reset_peak_rss
from bench.records import Table
from bench.report import Target
from bench.stack import Server, Stack
from bench.subject import Baseline, LoadTest, Subject, run_reference
from local.errors import LocalError

BATCH = 100  # keys
_TOP = 100  # entries
_PAUSE_S = 0.002  # after 64 KiB: makes the reader slower than the instance
_PIECE = 1 << 16
_HEAD = len(b'{"key":"')
_KEY = 16
# 16 readers that wait 4 ms on average between two reads: cores stay free, so that the latency shows
# how reads and other work delay each other, not how long they wait for a core
_READERS, _THINK_MS = 16, 4


def batch(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Rate and CPU are those of a key."""
    backend, batches = stack.filled_backend(), Workload(stack.table, batch=BATCH)
    baselines = [
        Baseline("cpu_us", "rocksdict-many"),
        Baseline("rps", "rocksdict-many", {16: Target(60_000.0, at_least=True)}),
    ]

    def read_rocksdb(_: int | None) -> Measurement:
        numbers = [stack.table.count, plan.gets // BATCH, BATCH]
        return run_reference("rocksdb", stack.copy_of(backend), "many", *numbers)

    yield [
        LoadTest(
            "batch", lambda: [backend], batches, plan, baselines=baselines, connections=[1, 16]
        ),
        Subject("rocksdict-many", read_rocksdb, reference=True),
    ]


def ndjson(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """A whole view, to a fast reader and to a slow one; each key is checked."""
    backend = stack.filled_backend()

    def read(pause: float) -> Measurement:
        reset_peak_rss(backend.pid)
        before, began = cpu_seconds(backend.pid), time.monotonic()
        entries = read_stream(f"{backend.url}/views/{stack.table.view}/keys", pause)
        seconds = time.monotonic() - began
        if entries != stack.table.count:
            raise LocalError(f"a stream has {entries:,} entries of {stack.table.count:,}")
        cpu_us = (cpu_seconds(backend.pid) - before) / entries * 1e6
        peak = peak_rss_mb(backend.pid)
        values = {"rps": entries / seconds, "cpu_us": cpu_us, "seconds": seconds, "rss_mb": peak}
        return Measurement(values)

    def read_rocksdb(_: int | None) -> Measurement:
        return run_reference("rocksdb", stack.copy_of(backend), "lines")

    peak = Target(400.0)
    baselines = [
        Baseline("rps", "rocksdict-lines", Target(200_000.0, at_least=True)),
        Baseline("cpu_us", "rocksdict-lines"),
        Baseline("rss_mb", "ndjson-slow", peak),
    ]
    yield [
        Subject("ndjson", lambda _: read(0.0), baselines=baselines),
        Subject(
            "ndjson-slow", lambda _: read(_PAUSE_S), baselines=[Baseline("rss_mb", "ndjson", peak)]
        ),
        Subject("rocksdict-lines", read_rocksdb, reference=True),
    ]


def read_stream(url: str, pause: float = 0.0) -> int:
    """Reads a whole NDJSON stream, with a pause of `pause` s after each 64 KiB; returns the number
    of entries. Raises LocalError if it is incomplete, or if a key is not greater than the one
    before."""
    entries = 0
    last, rest = b"", b""
    try:
        answer = urllib3.request(
            "GET", url, headers={"Accept": "application/x-ndjson"}, preload_content=False,
            timeout=60, retries=False,
        )  # fmt: skip
        if answer.status != 200:
            raise LocalError(f"{url}: {answer.status} {answer.data!r}")
        for piece in answer.stream(_PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            keys = [last, *[line[_HEAD : _HEAD + _KEY] for line in lines]]
            if sorted(set(keys)) != keys:
                raise LocalError(f"{url}: keys do not ascend after {last!r}")
            last = keys[-1]
            entries += len(lines)
            if pause:
                time.sleep(pause)
    except urllib3.exceptions.HTTPError as error:
        raise LocalError(f"{url} failed after {entries:,} entries: {error!r}") from error
    if rest:
        raise LocalError(f"{url} ends in the middle of a line")
    return entries


def top(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """The 100 entries with the greatest value of a field. CPU is that of an entry of the view."""
    backend = stack.filled_backend()
    expected = _expected(stack.table)

    def ask(_: int | None) -> Measurement:
        used, began = cpu_seconds(backend.pid), time.monotonic()
        _ask_top(backend, stack.table, expected)
        seconds = time.monotonic() - began
        cpu_us = (cpu_seconds(backend.pid) - used) / stack.table.count * 1e6
        return Measurement({"seconds": seconds, "cpu_us": cpu_us})

    def read_rocksdb(_: int | None) -> Measurement:
        return run_reference("rocksdb", stack.copy_of(backend), "top")

    baselines = [
        Baseline("seconds", "rocksdict-top", Target(2.0)),
        Baseline("cpu_us", "rocksdict-top"),
    ]
    yield [
        Subject("top", ask, baselines=baselines),
        Subject("rocksdict-top", read_rocksdb, reference=True),
    ]


def _ask_top(backend: Server, table: Table, expected: bytes) -> None:
    url = f"{backend.url}/views/{table.view}/top?by=balance&limit={_TOP}"
    answer = urllib3.request("GET", url, timeout=60)
    if answer.data != expected:
        raise LocalError(f"wrong answer to top: {answer.status} {answer.data[:200]!r}")


def _expected(table: Table) -> bytes:
    """The answer with the 100 greatest balances; of equal ones, the smallest keys."""
    ranked = sorted(range(table.count), key=lambda number: (-records.balance(number), number))
    items = [b'{"key":"%b","value":%b}' % (records.key(n), table.value(n)) for n in ranked[:_TOP]]
    return b'{"items":[%b]}' % b",".join(items)


def latency(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Point reads of readers that pause: alone, during rankings, and while records arrive."""
    backend = stack.filled_backend()
    workload = Workload(stack.table, think_ms=_THINK_MS)
    expected = _expected(stack.table)

    @contextmanager
    def rankings() -> Iterator[None]:
        """Asks for `top` repeatedly; LocalError at the end if an answer was wrong."""
        is_over = Event()

        def ask() -> None:
            while not is_over.is_set():
                _ask_top(backend, stack.table, expected)

        with ThreadPoolExecutor(1) as thread:
            asking = thread.submit(ask)
            try:
                yield
            finally:
                is_over.set()
            asking.result()

    @contextmanager
    def arriving() -> Iterator[None]:
        command = [sys.executable, "-m", "bench.feeder", stack.servers, str(stack.table.count)]
        before = _applied(backend)
        name = stack.new_name("feeder")
        feeder = stack.launch(name, lambda _: [*command, str(plan.rate)])
        stack.wait(lambda: _applied(backend) > before, "records to arrive")
        yield
        stack.stop(feeder)
        stack.wait_idle(backend)

    def reads(during: AbstractContextManager[None]) -> Measurement:
        with during:
            began, before = time.monotonic(), _applied(backend)
            measurement = load.measure(backend, [backend], workload, _READERS, 3 * plan.seconds)
            rate = (_applied(backend) - before) / (time.monotonic() - began)
        return Measurement({**measurement.values, "ingested_per_s": rate}, measurement.wrong)

    paced, twice = partial(Subject, connections=[_READERS]), Target(2.0, is_ratio=True)
    alone = paced("reads-idle", lambda _: reads(nullcontext()))
    alone.attempt(lambda: reads(nullcontext()))  # warms up
    yield [
        alone,
        paced(
            "reads-during-top",
            lambda _: reads(rankings()),
            baselines=[Baseline("p50_ms", alone.name, twice), Baseline("p99_ms", alone.name)],
        ),
        paced(
            "reads-while-ingesting",
            lambda _: reads(arriving()),
            baselines=[Baseline("p50_ms", alone.name), Baseline("p99_ms", alone.name, twice)],
        ),
    ]


def _applied(backend: Server) -> int:
    """The sum of the positions; 0 if the backend does not answer."""
    answer = backend.get("/instance")
    if answer.status != 200:
        return 0
    return sum(partition.get("position", 0) for partition in json.loads(answer.body)["partitions"])
