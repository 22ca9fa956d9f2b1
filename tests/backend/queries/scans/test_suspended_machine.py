"""A machine is suspended: until the broker is polled again, all data are as old as that."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.backend.queries.scans.any_partition import cluster, put
from tests.support.in_process.cluster import Cluster

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
