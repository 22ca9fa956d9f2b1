"""`make soak`: random faults one after the other; detects growing resource usage of processes."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from bench.proc import open_files, pss_mb, threads
from local.errors import friendly
from local.kafka.broker import Broker
from local.progress import bar
from local.stack.ownership import claim
from tests.faults import report
from tests.faults.cluster import AS_SHIPPED, Cluster
from tests.faults.flatness import Usage, growth, quarter
from tests.faults.runner import Result, Scenario, ScenarioContext, run_scenario

_SAMPLE_INTERVAL = 2.0  # s
_PAUSE = 5.0  # s between two faults
_DURATION = 4.0  # s of a fault that does not end by itself

_HELP = """Inject random faults for some minutes during continuous reads. The last instance is never
restarted: its resource usage, and that of nginx, must not grow from the second quarter to the last.
"""


def _kill(context: ScenarioContext, victim: int) -> None:
    context.backends[victim].kill()
    context.wait(_DURATION)
    context.backends[victim].launch()


def _restart(context: ScenarioContext, victim: int) -> None:
    context.backends[victim].stop()
    context.backends[victim].launch()


def _hang(context: ScenarioContext, victim: int) -> None:
    with context.backends[victim].paused():
        context.wait(_DURATION)


def _broker(context: ScenarioContext, victim: int) -> None:
    context.cluster.broker.kill()
    context.wait(_DURATION)
    context.cluster.broker.start()


def _reload(context: ScenarioContext, victim: int) -> None:
    context.cluster.nginx.reload()


FAULTS: Mapping[str, Callable[[ScenarioContext, int], None]] = {
    "kill": _kill,
    "restart": _restart,
    "hang": _hang,
    "broker": _broker,
    "reload": _reload,
}


class Samples:
    """Adds the usage of each instance and of nginx to `of` every 2 s, by name."""

    def __init__(self, cluster: Cluster, of: dict[str, list[Usage]]) -> None:
        self._cluster = cluster
        self._of = of
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples")

    @contextmanager
    def taken(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_INTERVAL):
            leaders = {b.id: b.pid for b in self._cluster.all if b.is_running}
            leaders["nginx"] = self._cluster.nginx.process.pid
            for name, pid in leaders.items():
                usage = Usage(pss_mb(pid), open_files(pid), threads(pid))
                self._of.setdefault(name, []).append(usage)


def soak(samples: dict[str, list[Usage]], minutes: float, seed: int) -> Scenario:
    """The scenario; it fills `samples`."""

    def run(context: ScenarioContext) -> None:
        chance = random.Random(seed)
        until = time.monotonic() + minutes * 60
        count = 0
        with Samples(context.cluster, samples).taken(), bar("soak", round(minutes * 60)) as update:
            while time.monotonic() < until:
                name = chance.choice(list(FAULTS))
                # the last instance may hang, but is never restarted
                victim = chance.randrange(3 if name == "hang" else 2)
                context.mark_fault()
                FAULTS[name](context, victim)
                context.wait_redundant(context.backends)
                context.wait(_PAUSE)
                count += 1
                update(min(round(minutes * 60), round(minutes * 60 - until + time.monotonic())))
        print(f"{count} faults", file=sys.stderr)

    return Scenario("soak", "random faults", run)


def table(samples: Mapping[str, list[Usage]]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("second quarter ► last quarter", no_wrap=True)
    for name in ("memory MB", "file handles", "threads"):
        made.add_column(name, justify="right")
    for name, of in sorted(samples.items()):
        then, now = quarter(of, 1), quarter(of, 3)
        pairs = (
            (then.memory_mb, now.memory_mb), (then.handles, now.handles),
            (then.threads, now.threads),
        )  # fmt: skip
        made.add_row(name, *(f"{before:,.0f} ► {after:,.0f}" for before, after in pairs))
    return made


@friendly
def main(
    minutes: Annotated[float, typer.Option(min=0.5, help="Duration of the run.")] = 10.0,
    rate: Annotated[float, typer.Option(min=10, help="Reads per second.")] = 200.0,
    seed: Annotated[int, typer.Option(help="Seed of the random faults; 0: a new one.")] = 0,
    run_dir: Annotated[Path, typer.Option(help="Folder of soak.json, logs and data.")] = Path(
        ".run"
    ),
) -> None:
    # SIGTERM acts like Ctrl-C, so that all processes are stopped
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    claim(run_dir, "--run-dir")
    folder = (run_dir / "soak").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    chosen = seed or random.SystemRandom().randrange(1, 1_000_000)
    print(f"seed {chosen}", file=sys.stderr)
    samples: dict[str, list[Usage]] = {}
    with Broker(folder / "broker", fresh=True) as broker:
        result = run_scenario(
            soak(samples, minutes, chosen), broker, folder / "cluster", rate=rate, **AS_SHIPPED
        )
    lasting = [name for name in samples if name in ("b3", "nginx")]
    grown = [f"{name}: {text}" for name in lasting for text in growth(samples[name])]
    _report(result, samples, grown, run_dir / "soak.json")
    if grown or not result.ok:
        raise typer.Exit(1)


def _report(
    result: Result, samples: Mapping[str, list[Usage]], grown: list[str], path: Path
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 190)
    console.print(report.table([result]))
    console.print(table(samples))
    for example in result.examples:
        console.print(f"WRONG {example}", highlight=False)
    for text in grown:
        console.print(f"NOT FLAT: {text}", style="red", highlight=False)
    document: dict[str, Any] = {**result.document(), "grown": grown}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(help=_HELP)(main)
    app(prog_name="python -m tests.faults.soak")
