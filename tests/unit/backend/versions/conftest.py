"""A deployment with two versions of a view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process.versioned import Deployment, two_versions


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Deployment]:
    with two_versions(tmp_path) as deployment:
        yield deployment
