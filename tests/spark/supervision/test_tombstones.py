"""When a view of a table may start or go on, although it is behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from local.kafka.broker import Broker
from local.waiting import wait_until
from spark.errors import JobError
from spark.supervision import tombstones
from tests.support.spark.controlled import ControlledRunner, of_table
from tests.support.topics import set_config


def test_a_job_stops_a_view_of_a_table_that_is_behind_for_too_long(
    runner: ControlledRunner, broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tombstones, "_TOLERATED_S", 5.0)
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0.2)
    flag = tmp_path / "flag"

    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            wait_until(lambda: not flag.exists(), 60, "the end of the test")
            yield batch

    view = of_table(runner.view)
    slow = replace(
        view, derive=lambda rows: view.derive(rows).mapInArrow(wait, "key binary, value string")
    )
    runner.settings = replace(runner.settings, views=[slow])
    set_config(broker.bootstrap_servers, runner.source, "cleanup.policy", "compact")
    set_config(broker.bootstrap_servers, runner.source, "delete.retention.ms", "0")

    def fall_behind() -> None:
        runner.write(b'{"n": 1}')
        with runner.stream() as thread:
            runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}})
            flag.touch()
            runner.write(b'{"n": 2}')
            # no other view runs, so the job ends
            thread.join(60)

    with pytest.raises(JobError, match="keeps tombstones for 0 s"):
        fall_behind()
