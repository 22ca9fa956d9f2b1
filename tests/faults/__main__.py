"""`make faults`: runs all scenarios, or the given ones, one after the other."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from local.errors import LocalError, friendly
from local.progress import bar
from local.stack.ownership import claim
from tests.faults import report
from tests.faults.cluster import AS_SHIPPED
from tests.faults.global_scenarios import SCENARIOS
from tests.faults.runner import Result, run_scenario
from tests.support.brokers import DetouredBroker
from tests.support.tcp_faults import TcpFaults

_HELP = """Inject one fault after the other during continuous reads, and check every answer. The
exit status is 1 if an answer was wrong or a target was missed.
"""


@friendly
def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only these scenarios (see --list).")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Duration of a fault.")] = 10.0,
    rate: Annotated[float, typer.Option(min=10, help="Reads per second.")] = 300.0,
    run_dir: Annotated[Path, typer.Option(help="Folder of faults.json, logs and data.")] = Path(
        ".run"
    ),
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep logs and data of passed scenarios.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the scenarios and exit.")] = False,
) -> None:
    if list_:
        for each in SCENARIOS.values():
            print(f"{each.name:<22}{each.what}")
        return
    if unknown := set(names or ()) - set(SCENARIOS):
        raise LocalError(f"unknown scenarios: {', '.join(sorted(unknown))}. See --list.")
    # SIGTERM acts like Ctrl-C, so that all processes are stopped
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    claim(run_dir, "--run-dir")
    folder = (run_dir / "faults").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    json_path = run_dir / "faults.json"
    chosen = list(dict.fromkeys(names or SCENARIOS))
    results = _run(chosen, folder, json_path, seconds, rate, keep)
    console = Console(width=None if sys.stdout.isatty() else 190)
    console.print(report.table(results))
    for each in results:
        for example in each.examples:
            console.print(f"{each.scenario}: WRONG {example}", highlight=False)
    console.print(f"{json_path} has all results.", highlight=False)
    if not all(each.ok for each in results):
        raise typer.Exit(1)


def _run(
    names: Sequence[str], folder: Path, json_path: Path, seconds: float, rate: float, keep: bool
) -> list[Result]:
    """Writes `json_path` after each scenario, so that an interrupted run has results."""
    results: list[Result] = []
    with ExitStack() as stack, bar("faults", len(names)) as update:
        detour = stack.enter_context(TcpFaults())
        broker = stack.enter_context(
            DetouredBroker(
                folder / "broker",
                detour.port,
                fresh=True,
                properties={"log.cleaner.backoff.ms": "100"},
            )
        )
        detour.target = broker.detour_port
        for name in names:
            place = folder / name
            result = run_scenario(
                SCENARIOS[name], broker, place,
                seconds=seconds, rate=rate, detour=detour, **AS_SHIPPED,
            )  # fmt: skip
            results.append(result)
            report.write(results, json_path)
            update(len(results))
            print(f"{name}: {report.remark(result) or 'ok'}", file=sys.stderr, flush=True)
            if not broker.is_running:
                broker.start()
            if result.ok and not keep:
                shutil.rmtree(place, ignore_errors=True)
    return results


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(help=_HELP)(main)
    app(prog_name="python -m tests.faults")
