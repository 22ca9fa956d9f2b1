"""A short version of `make pipelines`: two views, and a kill of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.job import LOCAL, LOCAL_CLUSTER
from tests.pipelines.kills import Kind
from tests.pipelines.result import Result
from tests.pipelines.runner import Options, run_on

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.system]

PAUSE = 3.0  # s before a kill that does not wait for a phase


@pytest.mark.timeout(600)
def test_views_are_those_of_a_batch_job_after_kills(tmp_path: Path) -> None:
    kinds = [Kind.JVM, Kind.DRIVER, Kind.WORKER]
    options = Options(["word-count", "visits"], 2, away=3, seed=17, kinds=kinds, pause=PAUSE)
    words, visits = checked(LOCAL, options, tmp_path)
    assert (words.late_rows, visits.late_rows > 0) == (0, True)


@pytest.mark.timeout(600)
def test_a_view_on_a_cluster_survives_its_executors(tmp_path: Path) -> None:
    options = Options(["airports"], 1, away=0, seed=17, kinds=[Kind.EXECUTOR], pause=PAUSE)
    [airports] = checked(LOCAL_CLUSTER, options, tmp_path)
    assert airports.kinds == {"executor": 1}


def checked(master: str, options: Options, folder: Path) -> list[Result]:
    reported: list[str] = []
    results = run_on(master, options, folder, reported.append)
    for each in results:
        assert each.ok, (each, reported)
        assert each.kills >= options.kills
        assert each.rows > 5
        assert each.malformed > each.tombstones > 0
    return results
