"""`python -m bench`: starts the servers that it needs on this machine, measures, prints a table."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from textwrap import fill
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
from bench.run import Group, run
from bench.stack import Stack
from local.errors import LocalError, friendly
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
_ROWS: dict[RowName, Group] = {
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
A reference that fails or answers wrongly is reported beside its row. The status is 1 only if ours
does, or if a row is not complete. All rows measured before are kept in results.json.
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
    path = run_dir / "results.json"
    report = Report(
        {**machine.facts(), "load_before": os.getloadavg()[0]},
        {**_fields(plan), "only": [name.value for name in chosen]},
    )
    ended = ""
    with _alone(run_dir):
        console.print(f"{path} has the rows as soon as they are measured.", highlight=False)
        start = partial(Stack, run_dir.absolute(), plan.records)
        try:
            run(report, {name.value: _ROWS[name] for name in chosen}, plan, start, path)
        except KeyboardInterrupt:
            ended = "interrupted; all servers are stopped."
        except LocalError as error:
            ended = str(error)
    if report.rows:
        _show(report, console, path)
    if ended or report.problems:
        raise LocalError("\n".join(filter(None, [ended, *report.problems])))


def _show(report: Report, console: Console, path: Path) -> None:
    """Prints the rows, and on what they were measured."""
    console.print(report.table())
    with contextlib.suppress(ValueError):  # the model needs the rows of reads and factors
        cost = read_cost.describe(report.document())
        console.print(f"A read by proxy: {cost}\n", highlight=False)
        header, *lines = machines.table(report.document())
        of_machines = Table(*header, box=box.SIMPLE_HEAD)
        for line in lines:
            of_machines.add_row(*line)
        console.print(of_machines)
    facts = report.machine
    found = facts["interpreter"]
    lines_about = (
        f"Processor: {facts['cpu']}, {facts['cores']} cores; other processes used "
        f"{facts['others']:.0%} of them during the run.",
        f"Interpreter: {machine.describe_interpreter(found)} ({found['path']}).",
        f"{path} has all numbers.",
    )
    for about in lines_about:
        console.print(about, highlight=False, markup=False, soft_wrap=True)
    if facts["others"] > 0.05:
        console.print("Trust the ratios, not the numbers.", style="yellow")


def _fields(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in plan.__slots__}


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
