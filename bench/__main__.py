"""`python -m bench`: starts the servers that it needs on this machine, measures, prints a table."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from bench import machine
from bench import publish as publishing
from bench.load import find_wrk
from bench.models import machines, read_cost
from bench.plan import FULL, HUGE, QUICK, Plan
from bench.proc import busy_seconds
from bench.report import Report
from bench.rows import (
    batch,
    client,
    copy,
    factors,
    forwarded,
    group,
    idle,
    ingest,
    latency,
    launch,
    metrics,
    ndjson,
    pipelines,
    reads,
    streams,
    tokens,
    top,
    topology,
)
from bench.stack import Stack
from local.errors import LocalError, friendly
from local.progress import bar
from local.settings import REPOSITORY
from local.stack.ownership import claim


class RowName(StrEnum):
    """The groups of rows that `--only` selects."""

    ingest = "ingest"
    launch = "launch"
    copy = "copy"
    reads = "reads"
    metrics = "metrics"
    tokens = "tokens"
    factors = "factors"
    forwarded = "forwarded"
    streams = "streams"
    idle = "idle"
    batch = "batch"
    ndjson = "ndjson"
    top = "top"
    topology = "topology"
    group = "group"
    client = "client"
    pipelines = "pipelines"
    latency = "latency"


# latency is last because it writes to the topic that the others read
_ROWS: dict[RowName, ModuleType] = {
    RowName.ingest: ingest,
    RowName.launch: launch,
    RowName.copy: copy,
    RowName.reads: reads,
    RowName.metrics: metrics,
    RowName.tokens: tokens,
    RowName.factors: factors,
    RowName.forwarded: forwarded,
    RowName.streams: streams,
    RowName.idle: idle,
    RowName.batch: batch,
    RowName.ndjson: ndjson,
    RowName.top: top,
    RowName.topology: topology,
    RowName.group: group,
    RowName.client: client,
    RowName.pipelines: pipelines,
    RowName.latency: latency,
}

_HELP = """Measure reads, scans, ingest and launch, each alternately with a reference.

Takes about half an hour. Other load on the machine distorts the numbers, and is reported.
BENCH_FULL=1 also measures reads of 10,000,000 keys, which takes longer.

\b
Examples:
  python -m bench
      everything
  python -m bench --only reads
      only the cost of a point read
  python -m bench --only reads --only factors
      also how it grows with keys, partitions and backends
  python -m bench --only ingest --only launch --rounds 5
  python -m bench --only ndjson --rounds 1 --entries 10000000
      a stream of 10 million entries, and its memory
  python -m bench --quick
      two minutes: shows that it works; the numbers are inexact
  python -m bench --publish
      write the last run's table and plots into docs/

\b
Rows:
""" + fill(", ".join(RowName), 78, initial_indent="  ", subsequent_indent="  ")


@friendly
def main(
    only: Annotated[
        list[RowName] | None,
        typer.Option(metavar="ROW", help="Only these rows (see above); can be repeated."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few records, short loads.")] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="How often each row is measured (3).")
    ] = None,
    entries: Annotated[
        int | None, typer.Option(min=1000, max=10_000_000, help="Records of the topic (1,000,000).")
    ] = None,
    run_dir: Annotated[Path, typer.Option(help="Logs, data and results.json.")] = Path(
        ".run/bench"
    ),
    publish: Annotated[
        bool, typer.Option("--publish", help="Write the last run into docs/; do not measure.")
    ] = False,
) -> None:
    # a file or a log has no width: use the table's
    console = Console(width=None if sys.stdout.isatty() else 170)
    # SIGTERM acts like Ctrl-C, so that the servers are stopped
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if publish:
        for path in publishing.publish(run_dir / "results.json", REPOSITORY / "docs"):
            console.print(f"Wrote {path.relative_to(REPOSITORY)}.", highlight=False)
        return
    size = QUICK if quick else FULL
    plan = replace(
        size,
        rounds=rounds or size.rounds,
        records=entries or size.records,
        huge=HUGE if os.environ.get("BENCH_FULL") == "1" else 0,
    )
    chosen = [name for name in RowName if not only or name in only]
    find_wrk()
    with _alone(run_dir):
        try:
            report = _run(plan, chosen, run_dir.absolute())
        except KeyboardInterrupt:
            raise LocalError("interrupted; all servers are stopped.") from None
    report.write(run_dir / "results.json")
    console.print(report.table())
    with contextlib.suppress(ValueError):  # the model needs the rows of reads and factors
        cost = read_cost.describe(report.document())
        console.print(f"A read by proxy: {cost}\n", highlight=False)
        header, *lines = machines.table(report.document())
        of_machines = Table(*header, box=box.SIMPLE_HEAD)
        for line in lines:
            of_machines.add_row(*line)
        console.print(of_machines)
    if report.machine["others"] > 0.05:
        console.print(
            f"Other processes used {report.machine['others']:.0%} of this machine's cores: trust "
            "the ratios, not the numbers.",
            style="yellow",
        )
    console.print(f"{run_dir / 'results.json'} has all numbers.", highlight=False)


def _run(plan: Plan, chosen: list[RowName], folder: Path) -> Report:
    report = Report(
        {**machine.facts(), "load_before": os.getloadavg()[0]},
        {**_fields(plan), "only": [name.value for name in chosen]},
    )
    began, busy, mine = time.monotonic(), busy_seconds(), _own_cpu()
    with Stack(folder, plan.records) as stack:
        for name in chosen:
            row = _ROWS[name]
            total = row.steps(plan)
            done = 0
            with bar(f"measuring {name}", total) as update:

                def step() -> None:
                    nonlocal done
                    done += 1
                    update(done)

                rows = row.measure(stack, plan, step)
            # a small run cannot show whether a target is met
            has_targets = plan.records >= FULL.records
            report.rows += rows if has_targets else [each.without_targets() for each in rows]
    seconds = time.monotonic() - began
    foreign = busy_seconds() - busy - (_own_cpu() - mine)
    report.machine["others"] = round(max(0.0, foreign) / seconds / report.machine["cores"], 3)
    report.machine["seconds"] = round(seconds, 1)
    return report


def _fields(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in plan.__slots__}


def _own_cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextlib.contextmanager
def _alone(run_dir: Path) -> Iterator[None]:
    """Locks the folder: two simultaneous runs would slow each other down."""
    try:
        claim(run_dir, "--run-dir")
        lock = (run_dir / "lock").open("w")
    except OSError as error:
        raise LocalError(f"cannot write {run_dir}: {error.strerror}. Use --run-dir.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LocalError(f"another run uses {run_dir}; wait until it ends.") from None
        yield


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(help=_HELP)(main)
    app(prog_name="python -m bench")
