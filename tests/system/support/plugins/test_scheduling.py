"""Runs of pytest: which worker runs which file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from local.settings import REPOSITORY
from tests.support.plugins.scheduling import SPARK_WORKERS

TEST = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number):
    worker = os.environ["PYTEST_XDIST_WORKER"]
    with Path("{log}").open("a") as log:
        log.write("{name} " + worker + "\\n")
"""


def test_few_workers_run_the_files_with_a_spark_session(tmp_path: Path) -> None:
    log = tmp_path / "log"
    names = [f"tests/{root}/test_{n}.py" for root in ("spark", "system") for n in range(6)]
    for name in names:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TEST.format(log=log, name=name))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable, "-m", "pytest", str(tmp_path), "-n", "4", "--dist", "loadfile",
        "-p", "tests.support.plugins.scheduling", "-p", "no:cacheprovider",
        "--import-mode", "importlib",
        "-c", str(tmp_path / "pytest.ini"), "--rootdir", str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )
    assert "36 passed" in done.stdout, json.dumps(done.stdout)
    ran = [line.split() for line in log.read_text().splitlines()]
    assert sorted({name for name, _ in ran}) == sorted(names)
    of_a_file = {name: {worker for other, worker in ran if other == name} for name in names}
    assert all(len(workers) == 1 for workers in of_a_file.values())
    spark = set().union(*(of_a_file[name] for name in names if "/spark/" in name))
    assert len(spark) <= SPARK_WORKERS
