"""The Python of Spark's workers on this machine.

Spark puts its archive `pyspark.zip` before the installed packages of a worker. Python keeps no
compiled modules for an archive, so each new process compiled all that it imports: 0.8 s of CPU
instead of 0.2 s. Spark waits 10 s for a new process, which is no setting, and on a busy machine the
query failed with "Python worker failed to connect back". A script takes the archive away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

import pyspark

_SCRIPT = Path(__file__).with_name("worker-python")
_NAME, _PYTHON = "PYSPARK_PYTHON", "PYTHON_OF_WORKERS"


def use_this_python(environment: MutableMapping[str, str], *, starts_java: bool) -> None:
    """Make the workers use this Python, unless ``PYSPARK_PYTHON`` names another one. Without it,
    they would use the first python3 on the PATH. ``starts_java``: whether Java, which starts the
    workers on this machine, gets its environment from this process."""
    if _NAME in environment:
        return
    environment[_NAME] = sys.executable
    is_installed = Path(pyspark.__file__).is_file()  # not in an archive itself
    if starts_java and is_installed and os.access(_SCRIPT, os.X_OK):
        environment[_NAME], environment[_PYTHON] = str(_SCRIPT), sys.executable
