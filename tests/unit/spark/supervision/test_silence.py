"""For how long a view has been silent, for the health check: what a restart of the job may mend."""

from __future__ import annotations

from dataclasses import replace
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark.settings import Settings
from spark.sources import Kafka
from spark.supervision import progress
from spark.supervision.events import Event
from spark.supervision.progress import ProgressListener
from spark.view import View
from spark.views import VIEWS

VIEW = VIEWS["word-count"]


class Listener:
    """The listener of a job with the views ``a`` and ``b``, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interval: float = 0.0) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: self.now))
        events: SimpleQueue[Event] = SimpleQueue()
        session = cast(Any, SimpleNamespace(streams=None))
        self.of_job = ProgressListener(session, None, ["a", "b"], events, {"a": interval})
        for name in "ab":
            self.of_job.onQueryStarted(cast(Any, SimpleNamespace(id=name, name=name)))

    def silent(self, view: str) -> float | None:
        return self.of_job.statuses()[view].silent


def test_a_view_is_not_silent_before_its_next_report_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: with a trigger of 10 minutes, a health check restarted the job for ever."""
    listener = Listener(monkeypatch, 600.0)
    assert listener.silent("a") == 0
    listener.now += 590
    assert (listener.silent("a"), listener.silent("b")) == (0, 590)
    listener.now += 50
    assert (listener.silent("a"), listener.silent("b")) == (40, 640)


@pytest.mark.parametrize(
    ("view", "changes", "seconds"),
    [
        (VIEW, {}, 0.2),
        (VIEW, {"trigger": "1 hour"}, 3600),
        (replace(VIEW, trigger="10 minutes"), {}, 600),
        (replace(VIEW, trigger="real-time"), {"real_time_batch": "30 seconds"}, 30),
        (VIEW, {"trigger": "1 hour", "once": True}, 0),
    ],
)
def test_spark_reports_once_in_each_interval(
    view: View, changes: dict[str, Any], seconds: float
) -> None:
    settings = replace(Settings([view], Kafka("127.0.0.1:9092"), "/checkpoints"), **changes)
    assert settings.report_interval(view) == seconds


def test_no_view_that_waits_is_silent_while_old_keys_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: after 5 minutes a health check restarted the job, which began again with it."""
    listener = Listener(monkeypatch)
    for name in "ab":
        listener.of_job.starting_again(name)
    listener.now += 100
    assert listener.silent("a") == 100, "its queries do not end"
    with listener.of_job.writing_itself():
        listener.now += 1_000
        assert (listener.silent("a"), listener.silent("b")) == (None, None)
    assert (listener.silent("a"), listener.silent("b")) == (0, 0)
    listener.now += 10
    assert listener.silent("b") == 10
