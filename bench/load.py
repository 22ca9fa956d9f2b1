"""The load generator: wrk with random keys, on one thread, and its report."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.proc import cpu_seconds, pss_mb
from bench.records import step_of
from local.errors import LocalError

_SCRIPT = Path(__file__).with_name("requests.lua")


@dataclass(frozen=True, slots=True)
class Workload:
    """Point reads of `keys` keys below `path`, or batches of `batch` keys.

    Each connection waits `think_ms` on average between two requests. With `zipf`, the k-th most
    popular key is read in proportion to 1/k, otherwise all keys are equally likely. `tokens`: a
    file with a token on each line; each point read has one of them. `traced`: each point read
    without a token has an id for the logs, so that instances forward it separately.
    """

    path: str
    keys: int
    batch: int = 0
    think_ms: int = 0
    zipf: bool = False
    tokens: Path | None = None
    traced: bool = False

    def arguments(self, seed: int) -> list[str]:
        """The arguments of requests.lua."""
        step = step_of(self.keys) if self.zipf else 0
        numbers = map(str, (self.keys, seed, self.batch, self.think_ms, step))
        tokens = "" if self.tokens is None else str(self.tokens)
        return [self.path, *numbers, tokens, str(int(self.traced))]


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One run of wrk; latencies in ms. `refused`: requests answered with a status above 399."""

    requests: int
    seconds: float
    refused: int
    unanswered: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p99_9_ms: float

    @property
    def rps(self) -> float:
        return self.requests / self.seconds

    @property
    def wrong(self) -> str:
        """The requests that were not answered with 200, as text; empty if there were none."""
        if not self.refused and not self.unanswered:
            return ""
        return (
            f"of {self.requests:,} requests, {self.refused:,} were answered with an error and "
            f"{self.unanswered:,} not at all"
        )


@dataclass(frozen=True, slots=True)
class Measurement:
    """A load, the servers' CPU time per request (µs), and their memory after it (MB).

    `batch` is the average number of reads that our nginx sent in one request; 0: unknown.
    """

    load: LoadResult
    cpu_us: float
    rss_mb: float
    batch: float = 0.0


def parse(output: str) -> LoadResult:
    """Parses the last line, which requests.lua wrote; ValueError or KeyError if it is invalid."""
    lines = output.strip().splitlines()
    report = json.loads(lines[-1] if lines else "")
    return LoadResult(
        requests=report["requests"],
        seconds=report["duration_us"] / 1e6,
        refused=report["refused"],
        unanswered=report["unanswered"],
        p50_ms=report["p50_us"] / 1e3,
        p90_ms=report["p90_us"] / 1e3,
        p99_ms=report["p99_us"] / 1e3,
        p99_9_ms=report["p99_9_us"] / 1e3,
    )


def find_wrk() -> str:
    """The path of wrk; LocalError if it is not installed."""
    if found := shutil.which("wrk"):
        return found
    raise LocalError("wrk is not installed: run `make bench`, or install Debian's package wrk.")


def run(
    port: int, workload: Workload, connections: int, seconds: int, note: Callable[[str], None]
) -> LoadResult:
    """Runs the workload. If requests were not answered with 200, `note` gets a description;
    LocalError if none was answered."""
    command = [find_wrk(), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(_SCRIPT)]
    command += [f"http://127.0.0.1:{port}", "--", *workload.arguments(random.randrange(2**31))]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds + 30
    )
    try:
        load = parse(done.stdout)
    except (ValueError, KeyError):
        output = (done.stdout + done.stderr).strip()
        raise LocalError(f"wrk ended with status {done.returncode}: {output}") from None
    if not load.requests:
        raise LocalError(f"port {port} answered no request, {load.unanswered:,} failed.")
    if load.wrong:
        note(load.wrong)
    return load


def measure(
    leaders: tuple[int, ...],
    port: int,
    workload: Workload,
    connections: int,
    seconds: int,
    note: Callable[[str], None],
) -> Measurement:
    """Calls `run`, and measures the resources that the sessions of the processes `leaders` used."""
    before = cpu_seconds(*leaders)
    load = run(port, workload, connections, seconds, note)
    cpu = (cpu_seconds(*leaders) - before) / load.requests * 1e6
    return Measurement(load, cpu, sum(pss_mb(leader) for leader in leaders))
