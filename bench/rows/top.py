"""The greatest of a whole view, and how long point reads wait meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from statistics import median

from bench import asking, load, records
from bench.load import Asked, Load
from bench.plan import Plan
from bench.proc import cpu_seconds
from bench.report import Comparison, Row, Target
from bench.stack import Stack, run_reference
from local.errors import LocalError

PATH = f"/views/{records.VIEW}/top?by=balance&limit=100"
SECONDS_TARGET = Target(2.0)
_READERS, _THINK_MS = 16, 4


def steps(plan: Plan) -> int:
    return plan.rounds * 4


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    expected = _expected(stack.count)
    asked = Asked(records.PATH, stack.count, think_ms=_THINK_MS)
    seconds: list[float] = []
    cpu: list[float] = []
    bare: list[dict[str, float]] = []
    quiet: list[Load] = []
    beside: list[Load] = []

    def reads() -> Load:
        return load.run(backend.port, asked, _READERS, 2 * plan.seconds)

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
        with _Again(backend.port, expected):
            beside.append(reads())
        step()
    beside_quiet = [
        Comparison.of(
            f"{name} of reads meanwhile", "ms", [get(each) for each in beside],
            "the same while nothing is scanned", [get(each) for each in quiet],
        )
        for name, get in (("p50", _p50), ("p99", _p99))
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
            Comparison.of("CPU an entry", "µs", cpu, of_bare, [each["cpu_us"] for each in bare]),
            *beside_quiet,
        ],
    )  # fmt: skip
    reference = Row(
        "rocksdict-top",
        cpu_us=median(each["cpu_us"] for each in bare),
        more={"seconds": median(each["seconds"] for each in bare)},
    )
    return [row, reference]


class _Again:
    """Somebody who asks for it again and again; LocalError at the end if an answer was wrong."""

    def __init__(self, port: int, expected: bytes) -> None:
        self._failed: LocalError | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(port, expected))

    def _run(self, port: int, expected: bytes) -> None:
        try:
            while not self._over.is_set():
                _ask(port, expected)
        except LocalError as error:
            self._failed = error

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failed is not None and kind is None:
            raise self._failed


def _ask(port: int, expected: bytes) -> None:
    answer = asking.ask(port, PATH, timeout=60)
    if answer is None or answer.body != expected:
        raise LocalError(f"top is answered wrongly: {answer}")


def _expected(count: int) -> bytes:
    """The 100 greatest balances; of equal ones the least keys."""
    ranked = sorted(range(count), key=lambda number: (-records.balance(number), number))
    items = [b'{"key":"%b","value":%b}' % (records.key(n), records.value(n)) for n in ranked[:100]]
    return b'{"items":[%b]}' % b",".join(items)


def _p50(each: Load) -> float:
    return each.p50_ms


def _p99(each: Load) -> float:
    return each.p99_ms
