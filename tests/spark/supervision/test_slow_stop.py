"""A query that does not end within Spark's ``stopTimeout``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from spark.event_time.watermarks import Watermarks
from spark.raw_topics.texts import TEXTS
from spark.view import Source
from spark.views.word_count import word_count
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.controlled import ControlledRunner
from tests.support.spark.runner import TimedTexts

TIMEOUT = "spark.sql.streaming.stopTimeout"


@pytest.fixture
def release(runner: ControlledRunner, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Micro-batches of views with TimedTexts do not end before the event."""
    released = threading.Event()
    before = runner.session.conf.get(TIMEOUT) or ""
    monkeypatch.setattr(Watermarks, "advance", lambda _: released.wait(60))
    runner.session.conf.set(TIMEOUT, "100ms")
    yield released
    runner.session.conf.set(TIMEOUT, before)
    released.set()
    for query in runner.session.streams.active:
        query.stop()


def test_a_query_that_is_slow_to_stop_does_not_affect_other_views(
    runner: ControlledRunner,
    release: threading.Event,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Regression: all views ended when a static source of one had changed, and at the end of the
    job the views after it were not stopped."""
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0.2)
    known = make_topic()
    other = replace(runner.view, name="other", topic=make_topic(cleanup_policy="compact"))
    slow = replace(
        runner.view,
        source="",
        decoder=None,
        sources=(Source(runner.source, TimedTexts()), Source(known, TEXTS, static=True)),
        derive=lambda texts, known: word_count(texts.join(known.select("text"), "text")),
    )
    runner.settings = replace(runner.settings, views=[slow, other])
    runner.write(b"one")
    runner.write_to(known, b"one")
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}}, "other")
        runner.wait_counts(one=1)
        runner.write_to(known, b"two")
        runner.wait_state("failed")
        runner.write(b"two")
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 2}}, "other")
    assert [query.name for query in runner.session.streams.active] == [slow.name]
    logged = capfd.readouterr().err
    assert f"warning: {slow.name} is slow to stop: " in logged
    assert logged.count("has changed since") == 1
