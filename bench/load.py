"""The load generator: wrk with random keys, on one thread, and what it reports."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.proc import cpu_seconds, pss_mb
from bench.records import step_of
from local.errors import LocalError, tail

_SCRIPT = Path(__file__).with_name("requests.lua")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked: point reads of `keys` keys below `path`, or batches of `batch` of them.

    Each connection waits `think_ms` on the average before it asks again. With `zipf` the k-th most
    popular key is asked for in proportion to 1/k, else all are alike.
    """

    path: str
    keys: int
    batch: int = 0
    think_ms: int = 0
    zipf: bool = False

    def arguments(self, seed: int) -> list[str]:
        """Of requests.lua."""
        step = step_of(self.keys) if self.zipf else 0
        return [self.path, *map(str, (self.keys, seed, self.batch, self.think_ms, step))]


@dataclass(frozen=True, slots=True)
class Load:
    """One run of wrk; latencies in ms. `refused` were answered with a status above 399."""

    requests: int
    seconds: float
    refused: int
    unanswered: int
    p50_ms: float
    p99_ms: float
    p99_9_ms: float

    @property
    def rps(self) -> float:
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True)
class Served:
    """A load, CPU that the servers spent on a request of it (µs), their memory after it (MB).

    `batch` is how many reads our nginx sent to a backend at a time, 0 where that is not known.
    """

    load: Load
    cpu_us: float
    rss_mb: float
    batch: float = 0.0


def parse(output: str) -> Load:
    """What requests.lua wrote as the last line; ValueError or KeyError if that is not there."""
    lines = output.strip().splitlines()
    said = json.loads(lines[-1] if lines else "")
    return Load(
        requests=said["requests"],
        seconds=said["duration_us"] / 1e6,
        refused=said["refused"],
        unanswered=said["unanswered"],
        p50_ms=said["p50_us"] / 1e3,
        p99_ms=said["p99_us"] / 1e3,
        p99_9_ms=said["p99_9_us"] / 1e3,
    )


def find_wrk() -> str:
    """The path of wrk; LocalError if it is not there."""
    if found := shutil.which("wrk"):
        return found
    raise LocalError("wrk is not installed: run `make bench`, or install Debian's package wrk.")


def run(port: int, asked: Asked, connections: int, seconds: int) -> Load:
    """Asks for so long; LocalError if a request was not answered 200."""
    command = [find_wrk(), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(_SCRIPT)]
    command += [f"http://127.0.0.1:{port}", "--", *asked.arguments(random.randrange(2**31))]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds + 30
    )
    try:
        load = parse(done.stdout)
    except (ValueError, KeyError):
        output = tail(done.stdout + done.stderr)
        raise LocalError(f"wrk ended with status {done.returncode}:\n{output}") from None
    if load.refused or load.unanswered or not load.requests:
        raise LocalError(
            f"of {load.requests:,} requests to port {port}, {load.refused:,} were refused, and "
            f"{load.unanswered:,} not answered: nothing that was measured would mean anything."
        )
    return load


def measure(
    leaders: tuple[int, ...], port: int, asked: Asked, connections: int, seconds: int
) -> Served:
    """`run`, and what the sessions of the processes `leaders` used for it."""
    before = cpu_seconds(*leaders)
    load = run(port, asked, connections, seconds)
    cpu = (cpu_seconds(*leaders) - before) / load.requests * 1e6
    return Served(load, cpu, sum(pss_mb(leader) for leader in leaders))
