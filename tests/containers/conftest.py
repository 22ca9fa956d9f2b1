"""One engine and one set of images for all tests of this folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.settings import REPOSITORY
from tests.support.containers.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A running engine without containers, with the images of `make images`."""
    if not (folder := os.environ.get("QUERYABLE_ENGINE_FOLDER")):
        pytest.skip("only `make compose-test` starts these: they need a network namespace")
    engine = Engine(Path(folder))
    engine.start()
    try:
        engine.remove_containers()
        subprocess.run(
            ["docker/images"],
            cwd=REPOSITORY, env={**engine.environment, "BASES": "debian"}, check=True, timeout=3600,
        )  # fmt: skip
        yield engine
        engine.remove_containers()
    finally:
        engine.stop()
