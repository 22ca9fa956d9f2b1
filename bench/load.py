"""The load generator: wrk with random keys, on one thread, and its report."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.proc import cpu_seconds, pss_mb
from bench.records import Table
from bench.stack import Server
from local.errors import LocalError

_SCRIPT = Path(__file__).with_name("requests.lua")


@dataclass(frozen=True, slots=True)
class Query:
    """A query with a number below `numbers` in its path. `path`: as a format of Lua and Python.
    `plan`: the header Plan of its answers (None: they have none). `first`: the start of the answer
    with 0."""

    path: str
    numbers: int
    plan: str | None
    first: bytes


@dataclass(frozen=True, slots=True)
class Workload:
    """Point reads of a table's keys, or batches of `batch` keys, or queries.

    Each connection waits `think_ms` on average between two requests. `tokens`: a file with a token
    on each line; each point read has one of them. `traced`: each point read without a token has an
    id for the logs, so that instances forward it separately.
    """

    table: Table
    batch: int = 0
    think_ms: int = 0
    tokens: Path | None = None
    traced: bool = False
    query: Query | None = None

    def arguments(self, seed: int) -> list[str]:
        """The arguments of requests.lua."""
        path = f"/views/{self.table.view}/batch" if self.batch else self.table.path
        count = self.table.count
        if self.query is not None:
            path, count = self.query.path, self.query.numbers
        numbers = map(str, (count, seed, self.batch, self.think_ms))
        tokens = "" if self.tokens is None else str(self.tokens)
        is_query = self.query is not None
        return [path, *numbers, tokens, str(int(self.traced)), str(int(is_query))]


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one round. `values`: the measured quantities by name; `bench.report.QUANTITIES`
    explains the common ones. `wrong`: descriptions of wrong answers."""

    values: Mapping[str, float]
    wrong: Sequence[str] = ()


def parse(output: str) -> Measurement:
    """Parses the last line, which requests.lua wrote. Raises ValueError or KeyError if it is
    invalid."""
    lines = output.strip().splitlines()
    report = json.loads(lines[-1] if lines else "")
    requests, refused, unanswered = (report[k] for k in ("requests", "refused", "unanswered"))
    wrong = (
        f"of {requests:,} requests, {refused:,} were answered with an error and {unanswered:,} "
        "not at all"
    )
    values = {f"{name}_ms": report[f"{name}_us"] / 1e3 for name in ("p50", "p99", "p99_9")}
    rate = requests / report["duration_us"] * 1e6
    return Measurement(
        {"requests": requests, "rps": rate, **values}, [wrong] if refused or unanswered else []
    )


def find_wrk() -> str:
    """The path of wrk. Raises LocalError if it is not installed."""
    if path := shutil.which("wrk"):
        return path
    raise LocalError("wrk is not installed: run `make bench`, or install Debian's package wrk.")


def measure(
    target: Server, servers: Sequence[Server], workload: Workload, connections: int, seconds: int
) -> Measurement:
    """Sends the workload to the server `target`. Measures the CPU time of `servers` per request,
    and their memory afterwards. Rate and CPU time are per key if a request has several keys.
    Raises LocalError if no request was answered."""
    command = [find_wrk(), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(_SCRIPT)]
    command += [target.url, "--", *workload.arguments(random.randrange(2**31))]
    pids = [server.pid for server in servers]
    before = cpu_seconds(*pids)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds + 30
    )
    cpu = cpu_seconds(*pids) - before
    try:
        measurement = parse(done.stdout)
    except (ValueError, KeyError):
        output = (done.stdout + done.stderr).strip()
        raise LocalError(f"wrk ended with status {done.returncode}: {output}") from None
    if not measurement.values["requests"]:
        raise LocalError(f"{target.url} answered no request.")
    keys = workload.batch or 1
    used = {
        "rps": measurement.values["rps"] * keys,
        "cpu_us": cpu / (measurement.values["requests"] * keys) * 1e6,
        "rss_mb": sum(map(pss_mb, pids)),
    }
    return Measurement({**measurement.values, **used}, measurement.wrong)


class Batches(NamedTuple):
    """The number of batches since nginx started, and the number of reads in them."""

    sent: float
    reads: float


def batches(proxy: Server, token: str = "") -> Batches:
    """The current counts of our nginx. `token`: a token with the scope `metrics`."""
    answer = proxy.get("/proxy/metrics", token)
    pattern = r"^queryable_proxy_batch_reads_(count|sum) (\S+)$"
    values = dict(re.findall(pattern, answer.body.decode(), re.M))
    if len(values) != 2:
        raise LocalError(f"{proxy.name} does not return its metrics: {answer}")
    return Batches(float(values["count"]), float(values["sum"]))


def reads_per_request(reads: float, before: Batches, after: Batches) -> float:
    """The average for `reads` between two counts. A read that was not coalesced is one request."""
    sent, batched = after.sent - before.sent, after.reads - before.reads
    return reads / (sent + max(0.0, reads - batched))
