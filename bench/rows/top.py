"""A ranking of a whole view (`top`), and the latency of point reads during it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from statistics import median

from bench import http_client, load, records
from bench.load import LoadResult, Workload
from bench.plan import Plan
from bench.proc import cpu_seconds
from bench.report import Comparison, Row, Target
from bench.stack import Stack, run_reference
from local.errors import LocalError

PATH = f"/views/{records.VIEW}/top?by=balance&limit=100"
SECONDS_TARGET = Target(2.0)  # s
P50_TARGET = Target(2.0, of_ratio=True)
_READERS, _THINK_MS = 16, 4


def steps(plan: Plan) -> int:
    return plan.rounds * 4


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    expected = _expected(stack.count)
    workload = Workload(records.PATH, stack.count, think_ms=_THINK_MS)
    seconds: list[float] = []
    cpu: list[float] = []
    bare: list[dict[str, float]] = []
    quiet: list[LoadResult] = []
    during: list[LoadResult] = []

    def reads() -> LoadResult:
        return load.run(backend.port, workload, _READERS, 2 * plan.seconds)

    for _ in range(plan.rounds):
        used, began = cpu_seconds(backend.pid), time.monotonic()
        _ask(backend.port, expected)
        seconds.append(time.monotonic() - began)
        cpu.append((cpu_seconds(backend.pid) - used) / stack.count * 1e6)
        step()
        bare.append(run_reference("scan", str(stack.copy_of(backend)), "top"))
        step()
        quiet.append(reads())
        step()
        with _RepeatedRequests(backend.port, expected):
            during.append(reads())
        step()
    beside_quiet = [
        Comparison.of(
            f"{name} of reads during top", "ms", [get(each) for each in during],
            "the same reads, idle", [get(each) for each in quiet], target,
        )
        for name, get, target in (("p50", _p50, P50_TARGET), ("p99", _p99, None))
    ]  # fmt: skip
    of_bare = "bare rocksdict, orjson and heapq"
    row = Row(
        "top",
        cpu_us=median(cpu),
        more={"seconds": median(seconds)},
        beside=[
            Comparison.of(
                f"top of {stack.count:,}", "s", seconds, of_bare,
                [each["seconds"] for each in bare], SECONDS_TARGET,
            ),
            Comparison.of("CPU per entry", "µs", cpu, of_bare, [each["cpu_us"] for each in bare]),
            *beside_quiet,
        ],
    )  # fmt: skip
    reference = Row(
        "rocksdict-top",
        cpu_us=median(each["cpu_us"] for each in bare),
        more={"seconds": median(each["seconds"] for each in bare)},
    )
    return [row, reference]


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
