"""`make attacks`: runs all attacks, or the given ones, one after the other."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from local.errors import LocalError, friendly
from local.kafka.broker import Broker
from local.stack.ownership import claim
from tests.attacks import report
from tests.attacks.attack import Attack
from tests.attacks.authentication import is_available
from tests.attacks.families import ATTACKS
from tests.attacks.measuring import Result
from tests.attacks.runner import honest_readers, run_attack
from tests.attacks.running_site import RunningSite, running_site

_HELP = """Run hostile clients one after the other next to 16 honest readers. The exit status is 1
if a target was missed.
"""


@friendly
def main(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Only these attacks: proxy/slow-headers, or slow-headers for both."),
    ] = None,
    times: Annotated[float, typer.Option(min=0.1, help="Multiple of each duration.")] = 1.0,
    run_dir: Annotated[Path, typer.Option(help="Folder of attacks.json, logs and data.")] = Path(
        ".run"
    ),
    list_: Annotated[bool, typer.Option("--list", help="List the attacks and exit.")] = False,
) -> None:
    if list_:
        for each in ATTACKS.values():
            print(f"{each.full_name:<34}{each.refused}")
        return
    # SIGTERM acts like Ctrl-C, so that all processes are stopped
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    attacks = chosen(names or ())
    claim(run_dir, "--run-dir")
    folder = (run_dir / "attacks").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    json_path = run_dir / "attacks.json"
    results, skipped = _run(attacks, folder, json_path, times)
    console = Console(width=None if sys.stdout.isatty() else 190)
    console.print(report.table(results))
    for attack in skipped:
        console.print(f"{attack.full_name} did not run: no {attack.needs} here", highlight=False)
    missed = sum(bool(each.missed) for each in results)
    console.print(
        f"{len(results)} attacks, {missed} missed a target. {json_path} has all results.",
        highlight=False,
    )
    if missed:
        raise typer.Exit(1)


def chosen(names: Sequence[str]) -> list[Attack]:
    """The attacks of these names, or all; LocalError."""
    known = {*ATTACKS, *(attack.name for attack in ATTACKS.values())}
    wanted = [part for name in names for part in name.split(",") if part]
    if unknown := set(wanted) - known:
        raise LocalError(f"unknown attacks: {', '.join(sorted(unknown))}. See --list.")
    return [
        attack
        for attack in ATTACKS.values()
        if not wanted or attack.name in wanted or attack.full_name in wanted
    ]


def _run(
    attacks: Sequence[Attack], folder: Path, json_path: Path, times: float
) -> tuple[list[Result], list[Attack]]:
    """Results, and the attacks that need what is not configured. Writes `json_path` after each
    attack, so that an interrupted run has results."""
    results: list[Result] = []
    free = [attack for attack in attacks if not attack.needs]
    secured = [attack for attack in attacks if attack.needs]
    skipped = [] if is_available() else secured
    with Broker(folder / "broker", fresh=True) as broker:
        for name, of_site in (("open", free), ("authenticated", secured)):
            if not of_site or of_site is skipped:
                continue
            place = folder / name
            with running_site(broker, place, of_site is secured) as running:
                for result in _run_all(of_site, running, times):
                    results.append(result)
                    report.write(results, json_path)
    return results, skipped


def _run_all(attacks: Sequence[Attack], running: RunningSite, times: float) -> Iterator[Result]:
    with honest_readers(running) as honest:
        for attack in attacks:
            result = run_attack(attack, running, honest, times)
            print(f"{attack.full_name}: {report.remark(result)}", file=sys.stderr, flush=True)
            yield result


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(help=_HELP)(main)
    app(prog_name="python -m tests.attacks")
