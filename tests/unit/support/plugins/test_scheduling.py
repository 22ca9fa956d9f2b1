from __future__ import annotations

from local.settings import REPOSITORY
from tests.support.plugins.scheduling import rank, recorded


def test_the_recorded_files_exist() -> None:
    assert [file for file in recorded() if not (REPOSITORY / file).exists()] == []


def test_longer_files_run_first_and_short_unit_tests_last() -> None:
    durations = {"tests/system/test_long.py": 60.0, "tests/unit/test_slow.py": 9.0}
    files = [
        "tests/unit/test_short.py",
        "tests/system/test_not_recorded.py",
        "tests/unit/test_slow.py",
        "tests/system/test_long.py",
    ]
    assert sorted(files, key=lambda file: rank(file, durations)) == files[::-1]
