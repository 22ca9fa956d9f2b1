"""``python -m local.tailer``."""

import typer

from local.tailer.tailer import main

typer.run(main)
