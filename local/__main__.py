"""Commands of the local stack: ``python -m local demo | up | down``."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from local import demo as demos
from local.errors import friendly
from local.run_folder import stop_background
from local.settings import load_settings

app = typer.Typer(add_completion=False, help="The whole stack on this machine.")


@app.command()
@friendly
def demo(
    once: Annotated[
        bool, typer.Option("--once", envvar="DEMO_ONCE", help="Verify all answers, then end.")
    ] = False,
) -> None:
    """Starts everything, shows what it answers, stays until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        demos.demo(load_settings(), once=once)
    except KeyboardInterrupt:
        if once:
            raise SystemExit(130) from None


@app.command()
@friendly
def up() -> None:
    """Starts everything in the background; ready when the command returns."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    demos.up(load_settings())


@app.command()
@friendly
def down() -> None:
    """Ends what `up` started."""
    ended = stop_background(load_settings().run_dir.absolute())
    print(f"ended: {', '.join(ended)}" if ended else "nothing was running")


if __name__ == "__main__":
    app()
