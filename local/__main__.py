"""The command line of the local stack: ``python -m local demo | up | down``."""

from __future__ import annotations

from typing import Annotated

import typer

from local import commands
from local.errors import friendly
from local.interrupts import interrupted_once
from local.settings import load_settings
from local.stack.run_folder import stop_background

app = typer.Typer(add_completion=False, help="The whole stack on this machine.")


@app.command()
@friendly
def demo(
    once: Annotated[
        bool, typer.Option("--once", envvar="DEMO_ONCE", help="Verify all answers, then exit.")
    ] = False,
) -> None:
    """Start everything, show example answers, run until Ctrl-C."""
    try:
        with interrupted_once():
            commands.demo(load_settings(), once=once)
    except KeyboardInterrupt:
        if once:
            raise SystemExit(130) from None


@app.command()
@friendly
def up() -> None:
    """Start everything in the background; ready when the command returns."""
    with interrupted_once():
        commands.up(load_settings())


@app.command()
@friendly
def down() -> None:
    """Stop what `up` started."""
    stopped = stop_background(load_settings().run_dir.absolute())
    print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


if __name__ == "__main__":
    app()
