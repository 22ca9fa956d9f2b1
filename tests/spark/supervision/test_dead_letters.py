"""Which view writes the dead letters of records that several views read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from model.pipelines.commands import REBUILD, RESTART
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.controlled import ControlledRunner, of_known_texts


def test_another_view_writes_them_after_the_first_is_refused(
    runner: ControlledRunner, make_topic: MakeTopic
) -> None:
    """Regression: nobody wrote them until the job was started again."""
    other = replace(runner.view, name="other", topic=make_topic(cleanup_policy="compact"))
    runner.settings = replace(runner.settings, views=[runner.view, other])
    runner.write(b"one", b"\xff")
    with runner.stream():
        runner.wait_progress(lambda p: p.get("dead_letters") == 1)
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 2}}, "other")
        assert runner.progress("other")["dead_letters"] == 0
        (Path(runner.settings.checkpoint(runner.view)) / "view.json").unlink()
        runner.send(RESTART)
        runner.wait_state("failed")
        runner.write(b"\xff")
        # from the start
        runner.wait_progress(lambda p: p.get("dead_letters") == 2, "other")
        runner.send(REBUILD)
        runner.wait_counts(one=1)
        runner.write(b"\xff")
        runner.wait_progress(lambda p: p.get("dead_letters") == 3, "other")
    assert runner.progress()["dead_letters"] == 1


def test_another_view_writes_them_after_a_static_source_of_the_first_has_changed(
    runner: ControlledRunner, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: nobody wrote them until the job was started again."""
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0.2)
    known = make_topic()
    others = [
        replace(runner.view, name=name, topic=make_topic(cleanup_policy="compact"))
        for name in ("other", "third")
    ]
    runner.view = of_known_texts(runner.view, known)
    runner.settings = replace(runner.settings, views=[runner.view, *others])
    runner.write(b"one", b"\xff")
    runner.write_to(known, b"one")
    with runner.stream():
        runner.wait_progress(lambda p: p.get("dead_letters") == 1)
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 2}}, "third")
        runner.write_to(known, b"two")
        runner.wait_state("failed")
        runner.write(b"\xff")
        runner.wait_progress(lambda p: p.get("dead_letters") == 2, "other")
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 3}}, "third")
    assert runner.progress("third")["dead_letters"] == 0, "only one of them does"
