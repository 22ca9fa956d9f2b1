"""`queryable up`, `down`, `demo` and `bench`: the whole stack on this machine, from a checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

import queryable
from queryable.console.exits import ends_well
from queryable.core.errors import BadUse

CHECKOUT = Path(queryable.__file__).parents[1]


def _run(module: str, arguments: list[str]) -> None:
    """Runs a module of the checkout in place of this command; BadUse where there is none."""
    if not (CHECKOUT / "Makefile").is_file():
        raise BadUse(
            f"This needs a checkout of the project, set up with `make setup`; {CHECKOUT} is none."
        )
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=CHECKOUT)
    while True:
        try:
            raise SystemExit(process.wait())
        except KeyboardInterrupt:
            continue  # it got the signal, too, and ends what it started


@ends_well
def up() -> None:
    """Start Kafka, Spark, backends and nginx in the background; ready when the command returns.

    In a Kafka of your own nothing is created or loaded, unless you say QUERYABLE_DEMO_DATA=yes.

    \b
    Examples:
      queryable up
      QUERYABLE_VIEWS=my-views.toml QUERYABLE_BOOTSTRAP_SERVERS=broker:9092 queryable up
    """
    _run("local", ["up"])


@ends_well
def down() -> None:
    """End what `queryable up` started.

    \b
    Example:
      queryable down
    """
    _run("local", ["down"])


@ends_well
def demo(
    once: bool = typer.Option(False, "--once", help="Verify all answers, then end."),
) -> None:
    """Start everything with 336,776 real flights, show what it answers, stay until Ctrl-C.

    \b
    Examples:
      queryable demo
      queryable demo --once
    """
    _run("local", ["demo", *(["--once"] if once else [])])


@ends_well
def bench(context: typer.Context) -> None:
    """Measure reads, scans, ingest and launch beside references (`queryable bench --help`).

    \b
    Examples:
      queryable bench --quick
      queryable bench --only reads
    """
    _run("bench", context.args)


PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
