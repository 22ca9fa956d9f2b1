"""Every answer about a view names the state of its pipeline, also one that refuses the read."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.pipelines.status import Pipeline
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import world


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("keys/1", 503),  # its owner is down
        ("keys", 503),
        ("count", 503),
        ("batch", 405),
        ("top?by=n&order=up", 400),
        ("windows", 400),
        ("keys/2?max_lag=x", 400),
    ],
)
def test_answers_without_a_value(tmp_path: Path, target: str, status: int) -> None:
    with world(tmp_path, ORDERS) as made:
        for instance in made.instances.values():
            instance.context.pipelines["orders"] = Pipeline("job", 1.0)
        made.peers.down.add("b2")
        key = next(b"%d" % n for n in range(99) if made.partition(b"%d" % n) % 2)
        said = made.ask(target.replace("keys/1", f"keys/{key.decode()}"))
        assert said.status == status
        assert said.named[b"pipeline-state"] == b"unknown"
        assert said.named[b"pipeline-lag"] == b"unknown"


def test_views_without_a_pipeline_have_no_such_header(tmp_path: Path) -> None:
    with world(tmp_path, ORDERS) as made:
        assert b"pipeline-state" not in made.ask("windows").named
