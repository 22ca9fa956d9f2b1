"""The estimate of a rebuild in `queryable check`."""

from __future__ import annotations

import json

from queryable.cli.check.rebuilds import rebuild_estimate
from tests.support.in_process.examples import ORDERS


def heartbeat(at: int, rate: float) -> str:
    return json.dumps({"state": "stopped", "at": at, "stats": {"processed_rate": rate}})


def test_the_time_comes_from_the_newest_heartbeat_of_the_job() -> None:
    committed = ["", heartbeat(1, 9.0), heartbeat(2, 2000.0), "no heartbeat"]
    found = rebuild_estimate(ORDERS, 600_000, committed)
    assert (found.status, found.subject) == ("ok", "view orders")
    assert found.message == (
        "a rebuild reads 600000 records: about 5 min at the 2,000 records/s of the job's last "
        "micro-batch"
    )


def test_the_time_is_unknown_without_a_rate() -> None:
    for committed in ([], ["", "7"], [heartbeat(1, 0.0)]):
        assert rebuild_estimate(ORDERS, 1, committed).message == "a rebuild reads 1 record"
