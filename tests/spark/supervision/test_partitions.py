"""Partitions that are added to a source while the job runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark.errors import JobError
from tests.spark.runner import TimedTexts
from tests.spark.supervision.controlled import ControlledRunner

pytestmark = [pytest.mark.spark, pytest.mark.broker]


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
