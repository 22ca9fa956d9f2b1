"""Runs of pytest in which a test takes long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from local.settings import REPOSITORY
from local.waiting import MAX_STRETCH
from tests.support.plugins.quick_tests import LIMIT

TEST = f"""
import time
import pytest

def test_short():
    pass

def test_long():
    time.sleep({LIMIT * MAX_STRETCH + 0.2})

@pytest.mark.slow
def test_marked():
    time.sleep({LIMIT * MAX_STRETCH + 0.2})
"""


def run(folder: Path, *more: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow: takes long\n")
    (folder / "test_it.py").write_text(TEST)
    command = [
        sys.executable, "-m", "pytest", str(folder), "-p", "tests.support.plugins.quick_tests",
        "-p", "no:cacheprovider", "-c", str(folder / "pytest.ini"), "--rootdir", str(folder), *more,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout


def test_a_long_test_fails_with_few_examples_unless_it_is_marked(tmp_path: Path) -> None:
    output = run(tmp_path, "--hypothesis-profile", "quick")
    assert "1 failed, 2 passed" in output
    assert "test_it.py::test_long took " in output
    assert "mark it `slow`" in output


def test_with_all_examples_no_test_is_too_long(tmp_path: Path) -> None:
    assert "3 passed" in run(tmp_path)
