"""How an instance reads the records of a topic of changes, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from backend.cluster.change_log import ChangeLog
from backend.instance.version_follower import versions_of
from model.view_versions import States, VersionState
from tests.support.in_process.change_logs import FakeTopic

STATE = VersionState(1).switched_to(2)


@contextmanager
def followed(
    topic: FakeTopic, on_change: Callable[[States], None]
) -> Iterator[ChangeLog[VersionState]]:
    """A log that has read its topic once."""
    log = ChangeLog(
        {}, "app", 10.0, versions_of("app"), on_change,
        librdkafka=topic.librdkafka, retry_after=0.01,
    )  # fmt: skip
    log.start()
    try:
        assert log.wait_until_known(10)
        yield log
    finally:
        log.stop()


@pytest.mark.slow
@pytest.mark.parametrize("are_read_together", [True, False])
def test_a_change_that_is_sent_twice_is_no_conflict(are_read_together: bool) -> None:
    """Kafka's client sends a record again if the broker's answer is lost. They are read together if
    the topic is read from its start meanwhile."""
    seen: list[States] = []
    topic = FakeTopic(copies=2)
    with followed(topic, seen.append) as log:
        topic.failures = 1 if are_read_together else 0
        log.change("orders", STATE)
        assert len(topic.records) == 2
        assert topic.failures == 0
    assert seen == [{}, {"orders": STATE}]


def test_a_change_that_could_not_be_applied_is_applied_again() -> None:
    seen: list[States] = []
    errors = [OSError("too many open files")]

    def apply(states: States) -> None:
        if states and errors:
            raise errors.pop()
        seen.append(states)

    with followed(FakeTopic(), apply) as log:
        log.change("orders", STATE)
    assert errors == []
    assert seen == [{}, {"orders": STATE}]
