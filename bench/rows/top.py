"""A ranking of a whole view (`top`), and the latency of point reads during it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from bench import http_client, load, records
from bench.load import LoadResult, Workload
from bench.plan import Plan
from bench.proc import cpu_seconds
from bench.report import Row, Target, compare
from bench.stack import Stack, run_reference
from bench.subject import Subject
from local.errors import LocalError

PATH = f"/views/{records.VIEW}/top?by=balance&limit=100"
SECONDS_TARGET = Target(2.0)  # s
P50_TARGET = Target(2.0, of_ratio=True)
_READERS, _THINK_MS = 16, 4


@dataclass(frozen=True, slots=True)
class Answered:
    """A query: its time, and the CPU of the instance per entry of the view."""

    seconds: float
    cpu_us: float


def steps(plan: Plan) -> int:
    return plan.rounds * 4


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    backend = stack.filled_backend()
    expected = _expected(stack.count)
    workload = Workload(records.PATH, stack.count, think_ms=_THINK_MS)
    ours = Subject[Answered]("top")
    bare = Subject[dict[str, float]]("rocksdict-top", reference=True)
    quiet, during = (
        Subject[LoadResult]("reads-without-top"),
        Subject[LoadResult]("reads-during-top"),
    )
    rows = partial(_rows, stack.count, ours, bare, quiet, during)

    def ask() -> Answered:
        used, began = cpu_seconds(backend.pid), time.monotonic()
        _ask(backend.port, expected)
        seconds = time.monotonic() - began
        return Answered(seconds, (cpu_seconds(backend.pid) - used) / stack.count * 1e6)

    def reads(note: Callable[[str], None]) -> LoadResult:
        return load.run(backend.port, workload, _READERS, 2 * plan.seconds, note)

    def reads_during_top() -> LoadResult:
        with _RepeatedRequests(backend.port, expected):
            return reads(during.note)

    for _ in range(plan.rounds):
        ours.measure(ask)
        yield rows()
        bare.measure(lambda: run_reference("scan", str(stack.copy_of(backend)), "top"))
        yield rows()
        quiet.measure(lambda: reads(quiet.note), _READERS)
        yield rows()
        during.measure(reads_during_top, _READERS)
        yield rows()


def _rows(
    count: int,
    ours: Subject[Answered],
    bare: Subject[dict[str, float]],
    quiet: Subject[LoadResult],
    during: Subject[LoadResult],
) -> list[Row]:
    seconds, cpu = ours.of(_seconds), ours.of(_cpu)
    of_bare, bare_cpu = "bare rocksdict, orjson and heapq", bare.of(itemgetter("cpu_us"))
    bare_seconds = bare.of(itemgetter("seconds"))
    beside = [
        *compare(f"top of {count:,}", "s", seconds, of_bare, bare_seconds, SECONDS_TARGET),
        *compare("CPU per entry", "µs", cpu, of_bare, bare_cpu),
    ]
    beside_quiet = []
    for name, get, target in (("p50", _p50, P50_TARGET), ("p99", _p99, None)):
        both = during.of(get, _READERS), "the same reads, idle", quiet.of(get, _READERS)
        beside_quiet += compare(f"{name} of reads during top", "ms", *both, target)
    return [
        ours.row(cpu_us=_cpu, more={"seconds": _seconds}, beside=beside),
        bare.row(cpu_us=itemgetter("cpu_us"), more={"seconds": itemgetter("seconds")}),
        quiet.row(_READERS, p50_ms=_p50, p99_ms=_p99),
        during.row(_READERS, p50_ms=_p50, p99_ms=_p99, beside=beside_quiet),
    ]


def _seconds(each: Answered) -> float:
    return each.seconds


def _cpu(each: Answered) -> float:
    return each.cpu_us


class _RepeatedRequests:
    """Requests `top` repeatedly in a thread; LocalError at the end if an answer was wrong."""

    def __init__(self, port: int, expected: bytes) -> None:
        self._failed: LocalError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(port, expected))

    def _run(self, port: int, expected: bytes) -> None:
        try:
            while not self._stop.is_set():
                _ask(port, expected)
        except LocalError as error:
            self._failed = error

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failed is not None and kind is None:
            raise self._failed


def _ask(port: int, expected: bytes) -> None:
    answer = http_client.request(port, PATH, timeout=60)
    if answer is None or answer.body != expected:
        raise LocalError(f"wrong answer to top: {answer}")


def _expected(count: int) -> bytes:
    """The answer with the 100 greatest balances; of equal ones, the smallest keys."""
    ranked = sorted(range(count), key=lambda number: (-records.balance(number), number))
    items = [b'{"key":"%b","value":%b}' % (records.key(n), records.value(n)) for n in ranked[:100]]
    return b'{"items":[%b]}' % b",".join(items)


def _p50(each: LoadResult) -> float:
    return each.p50_ms


def _p99(each: LoadResult) -> float:
    return each.p99_ms
