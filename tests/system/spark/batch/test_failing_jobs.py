"""Jobs whose tasks or driver are killed: nothing is published, or exactly the rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from local.settings import REPOSITORY
from local.waiting import wait_until
from model.pushes.manifest import CURRENT, Manifest
from tests.support.deployment import views_toml
from tests.system.spark.batch.job import ROWS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that was killed during its third push. One job for all tests, because
    Spark takes some seconds to start."""
    folder = tmp_path_factory.mktemp("job")
    for name in ("fails", "fails-once", "hangs"):
        (folder / name / "pushes").mkdir(parents=True)
        views = views_toml(orders={"topic": "orders", "push": "pushes"})
        (folder / name / "views.toml").write_text(views)
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.system.spark.batch.job", str(folder)],
            cwd=REPOSITORY,
            # as after `python job.py` where python3 on the PATH has no pyspark
            env={name: text for name, text in os.environ.items() if name != "PYSPARK_PYTHON"},
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: job.poll() is not None or len(list(folder.glob("hangs/pushes/*/*.sst"))) > 5,
            200, "files of the third push", 0.1,
        )  # fmt: skip
        assert job.poll() is None, (folder / "job.log").read_text()[-3000:]
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(20)
    return folder


def test_a_job_whose_task_fails_publishes_nothing(folder: Path) -> None:
    assert "Python worker exited unexpectedly" in (folder / "fails" / "error.txt").read_text()
    assert list((folder / "fails" / "pushes").iterdir()) == [], "abort deletes the files"


def test_a_task_that_is_killed_and_retried_is_published_once(folder: Path) -> None:
    pushes = folder / "fails-once" / "pushes"
    push = pushes / json.loads((pushes / CURRENT).read_bytes())["push"]
    manifest = Manifest.decode((push / "manifest.json").read_bytes())
    assert manifest.entries == ROWS
    # <partition>-<task>-<attempt>-…: all files are from the same attempt
    names = [file.name.split("-") for file in manifest.files]
    assert len({attempt for _, task, attempt, *_ in names if task == "1"}) == 1
    # the files of the first attempt are gone
    assert {path.name for path in push.iterdir()} == {
        "manifest.json", *(file.name for file in manifest.files)
    }  # fmt: skip


def test_a_job_that_is_killed_publishes_nothing(folder: Path) -> None:
    [push] = (folder / "hangs" / "pushes").iterdir()
    assert not (push / "manifest.json").exists()
