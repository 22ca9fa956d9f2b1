"""Partitions that are added to a source while the job runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local.waiting import wait_until
from spark.errors import JobError
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.controlled import ControlledRunner, of_table
from tests.support.spark.runner import TimedTexts


def test_the_job_starts_again_for_the_watermark_of_a_view(
    runner: ControlledRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the watermark stopped, silently, and the state grew until the next start."""
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL", 0)
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
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL", 0)
    runner.write(b"one")
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}})
        runner.add_partition(runner.source)
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1, "1": 0}})


def test_a_table_whose_keys_have_moved_is_a_warning(
    runner: ControlledRunner,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Regression: newer records of these keys were ignored in joins, silently."""
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL", 0)
    table = of_table(replace(runner.view, name="table", topic=make_topic()))
    runner.settings = replace(runner.settings, views=[runner.view, table])
    expected = f"warning: table: topic {runner.source} had 1 partitions when the view began"
    runner.write(b'{"n": 1}')
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}}, "table")
        assert expected not in capfd.readouterr().err
        runner.add_partition(runner.source)
        two = {runner.source: {"0": 1, "1": 0}}
        runner.wait_progress(lambda p: p["source_offsets"] == two, "table")
        text: list[str] = []

        def is_logged() -> bool:
            text.append(capfd.readouterr().err)
            return expected in "".join(text)

        wait_until(is_logged, 60, "the warning")
    assert "".join(text).count(expected) == 1
    runner.once()
    logged = capfd.readouterr().err
    assert logged.count(expected) == 1, "also at each start"
    assert "warning: word-count" not in logged, "the order of its records does not matter"
