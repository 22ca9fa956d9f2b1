"""`queryable up`, `down`, `demo` and `bench`: the local stack, from a checkout."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import typer

import queryable
from queryable.cli.declaration.command import command
from queryable.client.protocol.errors import BadUse

CHECKOUT = Path(queryable.__file__).parents[1]
SPARK_VIEWS = "QUERYABLE_SPARK_VIEWS"
PASS_THROUGH = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
"""The settings of a command whose arguments go to another program unchanged."""


def _run(module: str, arguments: list[str]) -> None:
    """Runs a module of the checkout instead of this program, so that it gets its signals.

    Raises BadUse if there is no checkout.
    """
    if not (CHECKOUT / "Makefile").is_file():
        raise BadUse(
            f"This command requires a checkout of the project; {CHECKOUT} is not one. Clone the "
            "repository and run `make setup` in it."
        )
    environment = {**os.environ, **_absolute(os.environ)}
    os.chdir(CHECKOUT)
    os.execve(sys.executable, [sys.executable, "-m", module, *arguments], environment)


def _absolute(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are paths, absolute: the module runs in the folder of the checkout."""
    from local.settings import absolute_paths

    variables = absolute_paths(environment)
    if views := environment.get(SPARK_VIEWS):
        parts = (part.strip() for part in views.split(","))
        variables[SPARK_VIEWS] = ",".join(
            str(Path(part).absolute()) if _is_path(part) else part for part in parts
        )
    return variables


def _is_path(view: str) -> bool:
    """Whether a view of Spark is named by its file or folder."""
    return "/" in view or view.partition(":")[0].endswith(".py")


@command
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


@command
def down() -> None:
    """Stop what `queryable up` started.

    \b
    Example:
      queryable down
    """
    _run("local", ["down"])


@command
def demo(once: bool = typer.Option(False, "--once", help="Verify all answers, then exit.")) -> None:
    """Run the whole stack with 336,776 flights until Ctrl-C.

    \b
    Examples:
      queryable demo
      queryable demo --once
    """
    _run("local", ["demo", *(["--once"] if once else [])])


@partial(command, settings=PASS_THROUGH)
def bench(context: typer.Context) -> None:
    """Run the benchmarks (options: `queryable bench --help`).

    \b
    Examples:
      queryable bench --quick
      queryable bench --only reads
    """
    _run("bench", context.args)
