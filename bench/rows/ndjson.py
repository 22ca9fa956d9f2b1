"""A whole view as an NDJSON stream, to a fast and to a slow reader, and the memory for it."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from bench import ndjson_reader, records
from bench.ndjson_reader import Stream
from bench.plan import Plan
from bench.proc import cpu_seconds, peak_rss_mb, reset_peak_rss
from bench.report import Comparison, Row, Target
from bench.stack import Stack, run_reference
from local.errors import LocalError

PATH = f"/views/{records.VIEW}/keys"
RATE_TARGET = Target(200_000.0, at_least=True)  # entries/s of an instance
MEMORY_TARGET = Target(400.0)  # MB
_ROCKSDICT = "bare rocksdict, each entry formatted as a line"
_PAUSE = 0.002  # s after 64 KiB: makes the reader slower than the instance


def steps(plan: Plan) -> int:
    return plan.rounds * 2 + 1


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    ours: list[Stream] = []
    cpu: list[float] = []
    peaks: list[float] = []
    bare: list[dict[str, float]] = []

    def stream(pause: float = 0.0) -> Stream:
        reset_peak_rss(backend.pid)
        found = ndjson_reader.read(backend.port, PATH, pause)
        if found.entries != stack.count:
            raise LocalError(f"a stream has {found.entries:,} entries of {stack.count:,}")
        peaks.append(peak_rss_mb(backend.pid))
        step()
        return found

    slow = stream(_PAUSE)
    for _ in range(plan.rounds):
        before = cpu_seconds(backend.pid)
        ours.append(stream())
        cpu.append((cpu_seconds(backend.pid) - before) / stack.count * 1e6)
        bare.append(run_reference("scan", str(stack.copy_of(backend)), "lines"))
        step()
    rates = [each.entries / each.seconds for each in ours]
    beside = [
        Comparison.of(
            "entries", "/s", rates, _ROCKSDICT, [each["entries_s"] for each in bare], RATE_TARGET
        ),
        Comparison.of("CPU per entry", "µs", cpu, _ROCKSDICT, [each["cpu_us"] for each in bare]),
        Comparison.of(
            "peak memory", "MB", [max(peaks[1:])], "with a slow reader", peaks[:1], MEMORY_TARGET
        ),
    ]
    row = Row(
        "ndjson",
        rps=median(rates),
        cpu_us=median(cpu),
        rss_mb=max(peaks),
        more={
            "bytes_s": median(each.size / each.seconds for each in ours),
            "entries": stack.count,
            "slow_seconds": slow.seconds,
            "slow_rss_mb": peaks[0],
        },
        beside=beside,
    )
    reference = Row(
        "rocksdict-lines",
        rps=median(each["entries_s"] for each in bare),
        cpu_us=median(each["cpu_us"] for each in bare),
    )
    return [row, reference]
