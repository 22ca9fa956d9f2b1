"""Finds the machine's Java and checks its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from local.errors import LocalError

OLDEST = 17
"""The oldest version that Kafka 4 supports."""


@cache
def find_java() -> str:
    """The path of ``java``: ``$JAVA_HOME/bin/java``, otherwise the first on the PATH.

    Raises ``LocalError`` if Java is missing or older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise LocalError(f"no java {where}. Install a JDK {OLDEST} or newer.")
    output = subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    ).stderr
    major = java_major(output)
    if major is None or major < OLDEST:
        version = output.splitlines()[0] if output else "no version"
        raise LocalError(
            f"Kafka needs Java {OLDEST} or newer; {java} is {version}. "
            f"Install a JDK {OLDEST} and point JAVA_HOME at it."
        )
    return java


def java_major(output: str) -> int | None:
    """The major version in the output of ``java -version``; ``1.8`` is 8."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else None
