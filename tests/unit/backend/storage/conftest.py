"""A data directory for the tests of stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.storage.data_directory import DataDirectory
from tests.unit.backend.storage.store_writer import TUNING


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataDirectory]:
    folder = DataDirectory(tmp_path / "data", TUNING)
    yield folder
    folder.close()
