"""Tests of a partition that the instance loses and gets back before its ingest thread looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process.fakes import Rec
from tests.unit.backend.ingest.test_verification import LOG, POSITION, Process


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """It answers for its partition."""
    new_process = Process(tmp_path, POSITION)
    new_process.turn(LOG, POSITION)
    assert new_process.answers
    yield new_process
    new_process.close()


def lose_and_get(process: Process) -> None:
    lifecycle = process.ingest.lifecycle
    lifecycle.assign({}, set(), set())
    lifecycle.assign({("v", 0): "active"}, {("v", 0)}, set())
    assert not process.answers


def test_it_answers_again_when_it_has_what_others_may_have_answered(process: Process) -> None:
    before = process.opened()
    lose_and_get(process)
    process.turn()
    assert process.registry.get("v", 0) is None, "the end of the log is from before"
    process.watcher.set(POSITION + 1)
    process.turn()
    assert process.opened() is not before
    assert not process.answers
    process.turn([Rec(POSITION, b"d", b"4")], POSITION + 1)
    assert process.answers


def test_records_that_it_applies_before_it_looks_do_not_make_it_answer(process: Process) -> None:
    """Regression: for up to a round, reads got what a deleted topic had, while the new one was
    there."""
    lose_and_get(process)
    process.opened().progress.applied(POSITION + 1)
    assert not process.answers


def test_the_new_topic_is_read_if_it_was_created_again_meanwhile(process: Process) -> None:
    lose_and_get(process)
    process.turn()
    process.watcher.set(2, topic_id="topic-2")
    process.turn()  # deletes the store
    process.turn()
    assert process.opened().progress.position == 0
    assert not process.answers
    process.turn([Rec(0, b"a", b"new"), Rec(1, b"e", b"5")], 2)
    assert process.answers
    assert process.opened().metadata.topic_id == "topic-2"


def test_a_partition_that_is_kept_goes_on(process: Process) -> None:
    before = process.opened()
    process.ingest.lifecycle.assign({("v", 0): "standby"}, {("v", 0)}, set())
    process.turn()
    assert process.answers
    assert (process.opened(), before.role) == (before, "standby")


def test_topics_without_partitions_are_looked_for(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: no instance noticed that its leader might describe a topic again."""
    watched: list[object] = []
    monkeypatch.setattr(process.watcher, "watch", watched.append)
    topic = process.opened().view.topic
    process.ingest.loop.assign({("v", 0): "active"}, set(), set(), {"hidden"})
    assert watched == [{topic: {0}, "hidden": set()}]
