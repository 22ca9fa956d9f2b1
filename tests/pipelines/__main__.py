"""`make pipelines`: kills the job of all views, or of the given ones, and compares the results."""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from local.errors import LocalError, friendly
from local.stack.ownership import claim
from tests.pipelines import result as results_file
from tests.pipelines.job import LOCAL, LOCAL_CLUSTER
from tests.pipelines.raw_records import GENERATORS
from tests.pipelines.result import Result
from tests.pipelines.runner import Options, run_on
from tests.pipelines.views import VIEWS

_REST = 1800.0  # s for everything else on one kind of cluster; it has time-outs of its own

CLUSTERS = {"local": LOCAL, "local-cluster": LOCAL_CLUSTER}

_HELP = """Kill Spark's job at random points while it derives views, and compare each view topic
with the one of a batch job. The exit status is 1 if they differ.

\b
examples:
  # all views, on both kinds of cluster
  python -m tests.pipelines
  # two views, ten kills of each, in a few minutes
  python -m tests.pipelines word-count visits --cluster local --kills 10 --away 20
  # the same records and choices as in an earlier run
  python -m tests.pipelines --cluster local-cluster --seed 1234567
"""


@friendly
def main(
    views: Annotated[list[str] | None, typer.Argument(help="Only these views.")] = None,
    cluster: Annotated[
        list[str] | None, typer.Option(help=f"Only this one: {', '.join(CLUSTERS)}.")
    ] = None,
    kills: Annotated[int, typer.Option(min=0, help="Kills of each view, in micro-batches.")] = 20,
    away: Annotated[float, typer.Option(min=0, help="Seconds without a broker.")] = 180.0,
    rate: Annotated[float, typer.Option(min=1, help="Records a second of each raw topic.")] = 100.0,
    seed: Annotated[int | None, typer.Option(help="Of an earlier run, to repeat it.")] = None,
    minutes: Annotated[
        float, typer.Option(min=1, help="Time for the kills on one kind of cluster.")
    ] = 40.0,
    run_dir: Annotated[Path, typer.Option(help="Folder of pipelines.json, logs and data.")] = Path(
        ".run"
    ),
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep logs and data if all is well.")
    ] = False,
) -> None:
    known = [each.name for each in VIEWS.values() if set(each.source_topics) <= set(GENERATORS)]
    names = list(dict.fromkeys(views or known))
    if unknown := set(names) - set(known):
        raise LocalError(f"unknown views: {', '.join(sorted(unknown))}. Known: {', '.join(known)}.")
    clusters = list(dict.fromkeys(cluster or CLUSTERS))
    if unknown := set(clusters) - set(CLUSTERS):
        raise LocalError(f"unknown clusters: {', '.join(unknown)}. Known: {', '.join(CLUSTERS)}.")
    # SIGTERM acts like Ctrl-C, so that all processes are stopped
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    claim(run_dir, "--run-dir")
    folder = (run_dir / "pipelines").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = random.SystemRandom().randrange(10**7) if seed is None else seed
    _say(f"seed {chosen}: --seed {chosen} repeats the records and choices of this run")
    _end_after(len(clusters) * (60 * minutes + away + _REST))
    options = Options(names, kills, away, chosen, rate, seconds=60 * minutes)
    results = _run([CLUSTERS[name] for name in clusters], options, folder, run_dir)
    console = Console(width=None if sys.stdout.isatty() else 190)
    console.print(results_file.table(results))
    console.print(f"{run_dir / 'pipelines.json'} has all results.", highlight=False)
    if not all(each.ok for each in results):
        console.print(f"{folder} has logs and data; seed {chosen}.", highlight=False)
        raise typer.Exit(1)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def _run(clusters: Sequence[str], options: Options, folder: Path, run_dir: Path) -> list[Result]:
    """Writes pipelines.json before and after each kind of cluster: a run that is interrupted, or
    hangs, has results that say so."""
    results: list[Result] = []
    for number, cluster in enumerate(clusters):
        began = time.monotonic()

        def report(text: str, cluster: str = cluster, began: float = began) -> None:
            _say(f"{cluster} {time.monotonic() - began:5.0f} s  {text}")

        def failed(error: str, cluster: str = cluster) -> list[Result]:
            return [
                Result(view, cluster, seed=options.seed, errors=[error]) for view in options.views
            ]

        results_file.write([*results, *failed("not finished")], run_dir / "pipelines.json")
        try:
            results += run_on(cluster, options, folder / str(number), report)
        except Exception as error:  # the other cluster must run in any case
            if not isinstance(error, LocalError):
                traceback.print_exc()
            _say(f"{cluster}: error: {error}")
            results += failed(f"{error!r:.300}")
        results_file.write(results, run_dir / "pipelines.json")
    return results


def _end_after(seconds: float) -> None:
    """Ends this process in any case; its children end with it."""

    def end() -> None:
        _say(f"error: not done after {seconds / 60:.0f} minutes")
        faulthandler.dump_traceback()
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(help=_HELP)(main)
    app(prog_name="python -m tests.pipelines")
