from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of pushes."""
    folder = tmp_path / "pushes"
    folder.mkdir()
    return folder
