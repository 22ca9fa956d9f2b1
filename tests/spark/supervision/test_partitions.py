"""Partitions that are added to a source while the job runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.errors import JobError
from spark.raw_topics.texts import TEXTS
from spark.tables import latest, mapped
from spark.view import Source
from spark.views.word_count import word_count
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.controlled import ControlledRunner, of_table
from tests.support.spark.runner import TimedTexts


def test_the_job_starts_again_for_the_watermark_of_a_view(
    runner: ControlledRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the watermark stopped, silently, and the state grew until the next start."""
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0)
    timed = replace(runner.view, decoder=TimedTexts())
    runner.settings = replace(runner.settings, views=[timed])
    with pytest.raises(JobError, match=rf"{runner.source} had 1 partitions and now has 2\. Start"):
        runner.stream_until(lambda: runner.add_partition(runner.source))
    # after a restart it reads all partitions
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1, "1": 0}})


def test_a_view_without_a_watermark_goes_on(
    runner: ControlledRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0)
    runner.write(b"one")
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}})
        runner.add_partition(runner.source)
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1, "1": 0}})


def newest(rows: DataFrame) -> DataFrame:
    return mapped(latest(rows), F.to_json(F.struct("n")))


def test_a_view_that_compares_the_rows_of_a_table_is_stopped(
    runner: ControlledRunner, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: newer records of keys that move were ignored, with a warning only."""
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0)
    table = replace(of_table(runner.view), name="table", topic=make_topic(), derive=newest)
    runner.settings = replace(runner.settings, views=[runner.view, table])
    runner.write(b'{"n": 1}')
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}}, "table")
        runner.add_partition(runner.source)
        runner.wait_progress(lambda p: p["is_final"], "table")
        # the order of records does not matter to a count
        two = {runner.source: {"0": 1, "1": 0}}
        runner.wait_progress(lambda p: p["source_offsets"] == two and p["state"] == "running")
    with pytest.raises(JobError, match=rf"table: topic {runner.source} has, or gets, keys"):
        runner.once()


def test_several_streams_whose_keys_may_move_are_a_warning(
    runner: ControlledRunner, make_topic: MakeTopic, capfd: pytest.CaptureFixture[str]
) -> None:
    sources = (Source(runner.source, TEXTS), Source(make_topic(), TEXTS))
    both = replace(
        runner.view,
        source="",
        decoder=None,
        sources=sources,
        derive=lambda one, other: word_count(one.unionByName(other)),
    )
    runner.settings = replace(runner.settings, views=[both])
    expected = f"topic {runner.source} had 1 partitions when the view began, and now has 2"
    runner.write(b"one")
    runner.once()
    assert expected not in capfd.readouterr().err
    runner.add_partition(runner.source)
    for _ in range(2):
        runner.once()
        assert capfd.readouterr().err.count(expected) == 1, "at each start"
