"""A whole view as an NDJSON stream, to a fast and to a slow reader, and the memory for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from bench import ndjson_reader, records
from bench.ndjson_reader import Stream
from bench.plan import Plan
from bench.proc import cpu_seconds, peak_rss_mb, reset_peak_rss
from bench.report import Row, Target, compare
from bench.stack import Stack, run_reference
from bench.subject import Subject
from local.errors import LocalError

PATH = f"/views/{records.VIEW}/keys"
RATE_TARGET = Target(200_000.0, at_least=True)  # entries/s of an instance
MEMORY_TARGET = Target(400.0)  # MB
_ROCKSDICT = "bare rocksdict, each entry formatted as a line"
_PAUSE = 0.002  # s after 64 KiB: makes the reader slower than the instance


@dataclass(frozen=True, slots=True)
class Reading:
    """A stream, CPU of the instance per entry, and its peak memory."""

    stream: Stream
    cpu_us: float
    peak_mb: float


def steps(plan: Plan) -> int:
    return plan.rounds * 2 + 1


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    backend = stack.filled_backend()
    ours, slow = Subject[Reading]("ndjson"), Subject[Reading]("ndjson-slow")
    bare = Subject[dict[str, float]]("rocksdict-lines", reference=True)

    def read(pause: float = 0.0) -> Reading:
        reset_peak_rss(backend.pid)
        before = cpu_seconds(backend.pid)
        found = ndjson_reader.read(backend.port, PATH, pause)
        if found.entries != stack.count:
            raise LocalError(f"a stream has {found.entries:,} entries of {stack.count:,}")
        cpu = (cpu_seconds(backend.pid) - before) / stack.count * 1e6
        return Reading(found, cpu, peak_rss_mb(backend.pid))

    slow.measure(lambda: read(_PAUSE))
    yield _rows(ours, slow, bare)
    for _ in range(plan.rounds):
        ours.measure(read)
        yield _rows(ours, slow, bare)
        bare.measure(lambda: run_reference("scan", str(stack.copy_of(backend)), "lines"))
        yield _rows(ours, slow, bare)


def _rows(
    ours: Subject[Reading], slow: Subject[Reading], bare: Subject[dict[str, float]]
) -> list[Row]:
    rate, cpu, peaks = (ours.of(get) for get in (_rate, _cpu, _peak))
    of_bare = bare.of(itemgetter("entries_s"))
    most = [max(peaks)] if peaks else []
    beside = [
        *compare("entries", "/s", rate, _ROCKSDICT, of_bare, RATE_TARGET),
        *compare("CPU per entry", "µs", cpu, _ROCKSDICT, bare.of(itemgetter("cpu_us"))),
        *compare("peak memory", "MB", most, "with a slow reader", slow.of(_peak), MEMORY_TARGET),
    ]
    return [
        ours.row(
            rps=_rate,
            cpu_us=_cpu,
            rss_mb=lambda _: max(*peaks, slow.last.peak_mb),
            more={
                "bytes_s": lambda each: each.stream.size / each.stream.seconds,
                "entries": lambda each: each.stream.entries,
                "slow_seconds": lambda _: slow.last.stream.seconds,
                "slow_rss_mb": lambda _: slow.last.peak_mb,
            },
            beside=beside,
        ),
        slow.row(rps=_rate, cpu_us=_cpu, rss_mb=_peak),
        bare.row(rps=itemgetter("entries_s"), cpu_us=itemgetter("cpu_us")),
    ]


def _rate(each: Reading) -> float:
    return each.stream.entries / each.stream.seconds


def _cpu(each: Reading) -> float:
    return each.cpu_us


def _peak(each: Reading) -> float:
    return each.peak_mb
