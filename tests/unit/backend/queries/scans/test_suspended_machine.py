"""A machine is suspended: until the broker is polled again, all data are as old as that."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from model.machine.clock import boot_time
from model.pipelines.status import CommittedOffset, LogOffsets, Pipeline
from tests.support.in_process.cluster import Cluster
from tests.unit.backend.queries.scans.any_partition import cluster, put

SUSPENDED = 600.0  # s
KEY, KEYS, COUNT = "keys/a", "keys", "count?exact=true"


def poll(made: Cluster) -> None:
    for node in made.nodes.values():
        node.metadata_poller.refresh()
        node.ingest.lifecycle.check_metadata()


@pytest.mark.parametrize("target", [KEY, KEYS, COUNT])
def test_no_answer_says_that_it_is_fresh_after_the_machine_was_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Regression: `time.monotonic` stands still meanwhile. Answers of ten minutes ago had a lag of
    0, and `max_staleness=1s` accepted them."""
    gettime = time.clock_gettime
    with cluster(tmp_path) as made:
        put(made, made.home(b"a"), b"a", b"1", 10)
        poll(made)
        more = "&" if "?" in target else "?"

        def ask(bounds: str = "") -> list[tuple[int, str | None, str | None]]:
            """(status, Lag, Staleness or the code of the refusal) by each instance."""
            path = f"/views/orders/{target}{more}{bounds}"
            answers = [made.ask(id_, "GET", path, b"", {}) for id_ in made.nodes]
            return [
                (each.status, each.headers["lag"], each.headers["staleness"])
                if each.status == 200
                else (each.status, None, each.json()["code"])
                for each in answers
            ]

        for status, lag, staleness in ask():
            assert (status, lag) == (200, "0")
            assert int(staleness or "") < 60_000
        monkeypatch.setattr(time, "clock_gettime", lambda which: gettime(which) + SUSPENDED)
        for status, lag, staleness in ask():
            assert (status, lag) == (200, "unknown")
            assert int(staleness or "") >= SUSPENDED * 1000
        if target == KEY:  # other queries have no bounds
            assert {code for _, _, code in ask("max_lag=1000")} == {"too-far-behind"}
            assert {code for _, _, code in ask("max_staleness=1m")} == {"too-stale"}
        poll(made)
        assert {lag for _, lag, _ in ask()} == {"0"}
        if target == KEY:
            assert {status for status, *_ in ask("max_lag=0&max_staleness=1m")} == {200}


def test_no_answer_says_that_its_pipeline_is_fresh_after_the_machine_was_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gettime = time.clock_gettime
    with cluster(tmp_path) as made:
        put(made, made.home(b"a"), b"a", b"1", 10)
        for node in made.nodes.values():
            pipeline = Pipeline("job", trusted_for_s=5)
            ends = {"raw": LogOffsets({0: 0}, {0: 7}, boot_time())}
            committed = {("raw", 0): CommittedOffset(7)}
            pipeline.record_poll(boot_time(), time.time_ns() // 1_000_000, committed, ends, True)
            node.context.pipelines = {"orders": pipeline}

        def pipelines() -> set[tuple[str, str, bool]]:
            """(Pipeline-State, Pipeline-Lag, whether Pipeline-Staleness is great)"""
            found = set()
            for id_, target in itertools.product(made.nodes, (KEYS, COUNT)):
                headers = made.ask(id_, "GET", f"/views/orders/{target}").headers
                is_old = int(headers["pipeline-staleness"]) >= SUSPENDED * 1000
                found.add((headers["pipeline-state"], headers["pipeline-lag"], is_old))
            return found

        assert pipelines() == {("running", "0", False)}
        monkeypatch.setattr(time, "clock_gettime", lambda which: gettime(which) + SUSPENDED)
        assert pipelines() == {("unknown", "unknown", True)}
