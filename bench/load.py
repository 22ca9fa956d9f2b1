"""The load generator: wrk with random keys, on one thread, and what it reports."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.proc import cpu_seconds
from local.errors import LocalError, tail

_READS = Path(__file__).with_name("keys.lua")
_BATCHES = Path(__file__).with_name("batch.lua")


@dataclass(frozen=True, slots=True)
class Load:
    """One run of wrk; latencies in ms."""

    requests: int
    seconds: float
    failed: int
    p50_ms: float
    p99_ms: float
    p999_ms: float

    @property
    def rps(self) -> float:
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True)
class Served:
    """A load, and the CPU that the servers spent on a request of it (µs)."""

    load: Load
    cpu_us: float


def parse(output: str) -> Load:
    """What keys.lua wrote as the last line; ValueError if that is not there."""
    lines = output.strip().splitlines()
    said = json.loads(lines[-1] if lines else "")
    return Load(
        requests=said["requests"],
        seconds=said["duration_us"] / 1e6,
        failed=said["failed"],
        p50_ms=said["p50_us"] / 1e3,
        p99_ms=said["p99_us"] / 1e3,
        p999_ms=said["p999_us"] / 1e3,
    )


def find_wrk() -> str:
    """The path of wrk; LocalError if it is not there."""
    if found := shutil.which("wrk"):
        return found
    raise LocalError("wrk is not installed: run `make bench`, or install Debian's package wrk.")


def run(
    port: int,
    path: str,
    keys: int,
    connections: int,
    seconds: int,
    think_ms: int = 0,
    batch: int = 0,
) -> Load:
    """Point reads of `keys` random keys below `path`, or batches of `batch` of them to it;
    LocalError if one was not answered 200."""
    script = _BATCHES if batch else _READS
    command = [find_wrk(), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script)]
    command += [f"http://127.0.0.1:{port}", "--", path, str(keys)]
    command += [str(random.randrange(2**31)), str(batch or think_ms)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds + 30
    )
    try:
        load = parse(done.stdout)
    except (ValueError, KeyError):
        output = tail(done.stdout + done.stderr)
        raise LocalError(f"wrk ended with status {done.returncode}:\n{output}") from None
    if load.failed or not load.requests:
        raise LocalError(
            f"of {load.requests:,} reads at port {port}, {load.failed:,} failed: nothing that was "
            f"measured would mean anything."
        )
    return load


def measure(
    leaders: tuple[int, ...],
    port: int,
    path: str,
    keys: int,
    connections: int,
    seconds: int,
    batch: int = 0,
) -> Served:
    """`run`, and the CPU time of the sessions of the processes `leaders` meanwhile."""
    before = cpu_seconds(*leaders)
    load = run(port, path, keys, connections, seconds, batch=batch)
    return Served(load, (cpu_seconds(*leaders) - before) / load.requests * 1e6)
