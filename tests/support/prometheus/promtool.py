"""promtool of Debian's package prometheus, if it is there (`make setup` unpacks it)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def program() -> str:
    """The path of promtool. Skips the test if it is not there."""
    beside_python = str(Path(sys.executable).parent)
    found = shutil.which("promtool", path=beside_python) or shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not there: make setup")
    return found


def promtool(*arguments: str | Path, stdin: bytes = b"") -> str:
    """Runs promtool; fails with its output if it finds a mistake. Skips the test if promtool is not
    there."""
    done = subprocess.run(
        [program(), *map(str, arguments)],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=60,
    )
    output = done.stdout.decode()
    assert done.returncode == 0, output
    return output
