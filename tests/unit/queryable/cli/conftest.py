"""Commands are built once: typer builds all of them for each that is run."""

from __future__ import annotations

from functools import cache

from typer import testing

testing._get_command = cache(testing._get_command)
