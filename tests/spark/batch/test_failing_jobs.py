"""Jobs whose tasks or driver are killed: nothing is published, or exactly the rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.settings import REPOSITORY
from local.waiting import wait_until
from model.pushes.manifest import Manifest
from tests.spark.batch.job import ROWS
from tests.support.deployment import views_toml

pytestmark = pytest.mark.spark

Job = subprocess.Popen[bytes]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "views.toml").write_text(views_toml(orders={"topic": "orders", "push": "pushes"}))
    (tmp_path / "pushes").mkdir()
    return tmp_path


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    running: list[Job] = []
    yield running
    for job in running:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(20)


def start(what: str, folder: Path, jobs: list[Job]) -> Job:
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.batch.job", what, str(folder)],
            cwd=REPOSITORY,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    jobs.append(job)
    return job


def published(folder: Path) -> Path | None:
    current = folder / "pushes" / "current.json"
    if not current.exists():
        return None
    return folder / "pushes" / json.loads(current.read_bytes())["push"]


def test_a_task_that_is_killed_and_retried_is_published_once(folder: Path, jobs: list[Job]) -> None:
    job = start("fails-once", folder, jobs)
    assert job.wait(120) == 0, (folder / "job.log").read_text()[-2000:]
    push = published(folder)
    assert push is not None
    manifest = Manifest.decode((push / "manifest.json").read_bytes())
    assert manifest.entries == ROWS
    # the files of the first attempt are gone
    attempts = {file.name.split("-")[2] for file in manifest.files if "-1-" in file.name[1:4]}
    assert len(attempts) == 1
    assert {path.name for path in push.iterdir()} == {
        "manifest.json", *(file.name for file in manifest.files)
    }  # fmt: skip


def test_a_job_whose_task_fails_publishes_nothing(folder: Path, jobs: list[Job]) -> None:
    job = start("fails", folder, jobs)
    assert job.wait(120) != 0
    assert list((folder / "pushes").iterdir()) == [], "abort deletes the files"


def test_a_job_that_is_killed_publishes_nothing(folder: Path, jobs: list[Job]) -> None:
    job = start("hangs", folder, jobs)
    wait_until(lambda: len(list(folder.glob("pushes/*/*.sst"))) > 5, 120, "files of the tasks", 0.1)
    os.killpg(job.pid, signal.SIGKILL)
    job.wait(20)
    assert published(folder) is None
