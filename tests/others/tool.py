"""Runs the command-line tool as a user without a terminal does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from local.settings import REPOSITORY

_TIMEOUT_S = 120


def run_queryable(folder: Path, *arguments: str) -> str:
    """What `queryable` prints in a folder. AssertionError if it fails."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("QUERYABLE_")}
    done = subprocess.run(
        [sys.executable, "-m", "queryable", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
        cwd=folder,
        env={**env, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def views_by_init(folder: Path, servers: str, *topics: str) -> str:
    """The text of the views file that `queryable init` writes for topics."""
    run_queryable(folder, "init", *topics, "--bootstrap-servers", servers)
    return (folder / "views.toml").read_text()
