from __future__ import annotations

import pytest

from tests.system.upgrades.last_release import LAST_RELEASE, Release, has_history, unpacked


@pytest.fixture(scope="package")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Skips the tests in a clone without the history."""
    if not has_history():
        pytest.skip(f"needs commit {LAST_RELEASE[:7]}: git fetch --unshallow")
    return unpacked(tmp_path_factory.mktemp("release"))
