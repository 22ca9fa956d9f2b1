"""`python -m bench`: starts all that it needs on this machine, measures, prints one table."""

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
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console

from bench import machine, model
from bench import publish as publishing
from bench.load import find_wrk
from bench.plan import FULL, HUGE, QUICK, Plan
from bench.proc import busy_seconds
from bench.report import Report
from bench.rows import batch, client, factors, ingest, latency, launch, ndjson, reads, top
from bench.stack import Stack
from local.errors import LocalError, friendly
from local.progress import bar
from local.settings import REPOSITORY
from local.stack.ownership import claim


class RowName(StrEnum):
    """What can be measured alone."""

    ingest = "ingest"
    launch = "launch"
    reads = "reads"
    factors = "factors"
    batch = "batch"
    ndjson = "ndjson"
    top = "top"
    client = "client"
    latency = "latency"


# latency last: it writes to the topic, which the others read as it was
_ROWS: dict[RowName, ModuleType] = {
    RowName.ingest: ingest,
    RowName.launch: launch,
    RowName.reads: reads,
    RowName.factors: factors,
    RowName.batch: batch,
    RowName.ndjson: ndjson,
    RowName.top: top,
    RowName.client: client,
    RowName.latency: latency,
}

_HELP = """Measure reads, scans, ingest and launch, each beside a reference run in turn with it.

Takes under 10 minutes; load on the machine from elsewhere spoils it, and is reported. With
BENCH_FULL=1 reads of 10,000,000 keys are measured, too, and it takes longer.

\b
Examples:
  python -m bench                     all of it
  python -m bench --only reads        what a point read costs beside its limits, nothing else
  python -m bench --only reads --only factors
                                      that, and how it grows with keys, partitions and backends
  python -m bench --only ingest --only launch --rounds 5
  python -m bench --only ndjson --rounds 1 --entries 10000000
                                      a stream of 10 million entries, and the memory it takes
  python -m bench --quick             two minutes: shows that it works, measures nothing well
  python -m bench --publish           the last run's table and plots, into docs/
"""


@friendly
def main(
    only: Annotated[list[RowName] | None, typer.Option(help="Only this; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small and short.")] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="How often each is measured (3).")
    ] = None,
    entries: Annotated[
        int | None, typer.Option(min=1000, max=10_000_000, help="Records of the topic (1,000,000).")
    ] = None,
    run_dir: Annotated[Path, typer.Option(help="Logs, data and results.json.")] = Path(
        ".run/bench"
    ),
    publish: Annotated[
        bool, typer.Option("--publish", help="Put the last run into docs/; measure nothing.")
    ] = False,
) -> None:
    # a table that goes into a file or a log is as wide as it needs to be
    console = Console(width=None if sys.stdout.isatty() else 170)
    # SIGTERM as Ctrl-C: whatever was started is ended
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if publish:
        for path in publishing.publish(run_dir / "results.json", REPOSITORY / "docs"):
            console.print(f"{path.relative_to(REPOSITORY)} is written.", highlight=False)
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
            raise LocalError("interrupted; nothing is left running.") from None
    report.write(run_dir / "results.json")
    console.print(report.table())
    with contextlib.suppress(ValueError):  # it takes reads and factors
        console.print(f"A read by proxy: {model.describe(report.document())}\n", highlight=False)
    if report.machine["others"] > 0.05:
        console.print(
            f"Others used {report.machine['others']:.0%} of this machine's cores meanwhile: trust "
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
            # so small a run is no judgement
            judged = plan.records >= FULL.records
            report.rows += rows if judged else [each.without_targets() for each in rows]
    seconds = time.monotonic() - began
    foreign = busy_seconds() - busy - (_own_cpu() - mine)
    report.machine["others"] = round(max(0.0, foreign) / seconds / report.machine["cores"], 3)
    report.machine["seconds"] = round(seconds, 1)
    return report


def _fields(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in plan.__slots__}


def _own_cpu() -> float:
    """CPU seconds of this process and of all that it started and that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextlib.contextmanager
def _alone(run_dir: Path) -> Iterator[None]:
    """Two runs at once would measure each other."""
    try:
        claim(run_dir, "--run-dir")
        lock = (run_dir / "lock").open("w")
    except OSError as error:
        raise LocalError(f"cannot write {run_dir}: {error.strerror}. Use --run-dir.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LocalError(f"another run is using {run_dir}; wait for its end.") from None
        yield


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(help=_HELP)(main)
    app(prog_name="python -m bench")
