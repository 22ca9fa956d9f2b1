"""Programs that a test needs and that `make setup` does not install."""

from __future__ import annotations

import shutil

import pytest

from local.errors import LocalError
from local.kafka.java import find_java


def need(*programs: str) -> None:
    """Skip the test if a program is missing. Maven (`mvn`) fetches jars."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def need_java() -> None:
    """Skip the test if there is no Java."""
    try:
        find_java()
    except LocalError as error:
        pytest.skip(str(error))
