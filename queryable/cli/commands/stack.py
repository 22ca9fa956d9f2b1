"""`queryable up`, `down`, `demo` and `bench`: the local stack, from a checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

import queryable
from queryable.cli.exit_codes import reports_errors
from queryable.client.protocol.errors import BadUse

app = typer.Typer()

CHECKOUT = Path(queryable.__file__).parents[1]
PASS_THROUGH = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
"""The settings of a command whose arguments go to another program unchanged."""


def _run(module: str, arguments: list[str]) -> None:
    """Runs a module of the checkout and exits with its exit code.

    Raises BadUse if there is no checkout.
    """
    if not (CHECKOUT / "Makefile").is_file():
        raise BadUse(
            f"This command requires a checkout of the project; {CHECKOUT} is not one. Clone the "
            "repository and run `make setup` in it."
        )
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=CHECKOUT)
    while True:
        try:
            raise SystemExit(process.wait())
        except KeyboardInterrupt:
            continue  # the process has received the signal too, and stops its own children


@app.command()
@reports_errors
def up() -> None:
    """Start Kafka, Spark, backends and nginx in the background.

    Returns when they are ready. With a Kafka cluster of your own (QUERYABLE_BOOTSTRAP_SERVERS), no
    topics or records are created unless QUERYABLE_DEMO_DATA=yes.

    \b
    Examples:
      queryable up
      QUERYABLE_VIEWS=my-views.toml queryable up
      QUERYABLE_BOOTSTRAP_SERVERS=broker:9092 queryable up
    """
    _run("local", ["up"])


@app.command()
@reports_errors
def down() -> None:
    """Stop what `queryable up` started.

    \b
    Example:
      queryable down
    """
    _run("local", ["down"])


@app.command()
@reports_errors
def demo(
    once: bool = typer.Option(False, "--once", help="Verify all answers, then exit."),
) -> None:
    """Run the whole stack with 336,776 flights until Ctrl-C.

    \b
    Examples:
      queryable demo
      queryable demo --once
    """
    _run("local", ["demo", *(["--once"] if once else [])])


@app.command(context_settings=PASS_THROUGH)
@reports_errors
def bench(context: typer.Context) -> None:
    """Run the benchmarks (options: `queryable bench --help`).

    \b
    Examples:
      queryable bench --quick
      queryable bench --only reads
    """
    _run("bench", context.args)
