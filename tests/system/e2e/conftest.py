"""One demo for all tests of this folder: it takes some 30 s to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.e2e.demo import Demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A running demo; it is ended with Ctrl-C, and leaves no child behind."""
    running = Demo(tmp_path_factory.mktemp("demo"))
    try:
        running.start()
        yield running
    finally:
        running.end()
