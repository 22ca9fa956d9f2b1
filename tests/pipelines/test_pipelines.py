"""A short version of `make pipelines`: two views, and a kill of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.job import LOCAL, LOCAL_CLUSTER
from tests.pipelines.kills import Kind
from tests.pipelines.runner import Options, run_on

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.system]

SHORT = {
    LOCAL: (["word-count", "visits"], [Kind.JVM, Kind.DRIVER, Kind.WORKER]),
    LOCAL_CLUSTER: (["airports"], [Kind.EXECUTOR, Kind.ALL]),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("master", SHORT)
def test_views_are_those_of_a_batch_job_after_kills(master: str, tmp_path: Path) -> None:
    views, kinds = SHORT[master]
    reported: list[str] = []
    options = Options(views=views, kills=2, away=3, seed=17, kinds=kinds, pause=3)
    results = run_on(master, options, tmp_path, reported.append)
    for each in results:
        assert each.ok, (each, reported)
        assert each.kills >= 2
        assert each.rows > 5
        assert each.malformed > each.tombstones > 0
    if master == LOCAL:
        assert [each.late_rows > 0 for each in results] == [False, True]
