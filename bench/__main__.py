"""`python -m bench`: starts the servers that it needs on this machine, measures, prints a table."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer
from rich.console import Console

from bench import machine
from bench.load import find_wrk
from bench.plan import FULL, QUICK
from bench.report import Report
from bench.rows import (
    catching_up,
    columns,
    group,
    indexes,
    instances,
    pipelines,
    reads,
    statements,
    topology,
    whole_views,
)
from bench.run import Group, run
from bench.stack import Stack
from local.errors import LocalError, friendly
from local.stack.ownership import claim

# in the order of their measurement
_GROUPS: dict[str, Group] = {
    "ingest": catching_up.ingest,
    "launch": catching_up.launch,
    "reads": reads.reads,
    "tokens": reads.tokens,
    "factors": reads.factors,
    "forwarded": instances.forwarded,
    "idle": instances.idle,
    "batch": whole_views.batch,
    "ndjson": whole_views.ndjson,
    "top": whole_views.top,
    "filters": indexes.filters,
    "indexes": indexes.look_ups,
    "statements": statements.statements,
    "columns": columns.columns,
    "ingest-indexed": indexes.ingest,
    "topology": topology.topology,
    "group": group.group,
    "pipelines": pipelines.pipelines,
    "latency": whole_views.latency,  # the last one, because it writes to the topic of the others
}

_HELP = """Measure reads, scans, ingest and launch, each alternately with a reference.

Takes about half an hour. Other load on the machine distorts the numbers, and is reported.
A reference that fails or answers wrongly is reported below its row. The status is 1 only if ours
does, or if a row is not complete. All rows that have been measured are kept in results.json.

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
      some minutes: shows that it works; the numbers are inexact

\b
Rows:
""" + fill(", ".join(_GROUPS), 78, initial_indent="  ", subsequent_indent="  ")


def _check_rows(names: list[str] | None) -> list[str] | None:
    if unknown := set(names or ()) - _GROUPS.keys():
        raise typer.BadParameter(f"there are no rows {', '.join(sorted(unknown))}.")
    return names


@friendly
def main(
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW",
            help="Only these rows (see above); can be repeated.",
            callback=_check_rows,
        ),
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
) -> None:
    # a file or a log has no width, so this is wide enough for the table
    console = Console(width=None if sys.stdout.isatty() else 180)
    # SIGTERM acts like Ctrl-C, so that the servers are stopped
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    path = run_dir / "results.json"
    size = QUICK if quick else FULL
    plan = replace(size, rounds=rounds or size.rounds, records=entries or size.records)
    chosen = [name for name in _GROUPS if not only or name in only]
    find_wrk()
    report = Report(
        {**machine.facts(), "load_before": os.getloadavg()[0]}, {**asdict(plan), "only": chosen}
    )
    ended = ""
    with _alone(run_dir):
        console.print(f"{path} has the rows as soon as they are measured.", highlight=False)
        start = partial(Stack, run_dir.absolute(), plan.records)
        try:
            run(report, {name: _GROUPS[name] for name in chosen}, plan, start, path)
        except KeyboardInterrupt:
            ended = "interrupted; all servers are stopped."
        except LocalError as error:
            ended = str(error)
    if report.rows:
        _show(report, console, path)
    if ended or report.problems:
        raise LocalError("\n".join(filter(None, [ended, *report.problems])))


def _show(report: Report, console: Console, path: Path) -> None:
    """Prints the rows, the processor and the interpreter."""
    console.print(report.table())
    facts = report.machine
    interpreter = facts["interpreter"]
    for line in (
        f"Processor: {facts['cpu']}, {facts['cores']} cores; other processes used "
        f"{facts['others']:.0%} of them during the run.",
        f"Interpreter: {machine.describe_interpreter(interpreter)} ({interpreter['path']}).",
        f"{path} has all numbers.",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if facts["others"] > 0.05:
        console.print("Trust the ratios, not the numbers.", style="yellow")


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
