"""Since when a view has the whole logs of its sources, which a transaction may hold back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from spark.kafka_admin import EndOffsets
from spark.supervision import whole_logs
from spark.supervision.whole_logs import WholeLogs
from spark.views import VIEWS

VIEW = VIEWS["word-count"]


class Job:
    """A job with one view, whose source has these high watermarks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.high = {0: 0, 1: 0}
        self.requests = 0
        self.logs = WholeLogs([VIEW], self._high_watermarks)
        monkeypatch.setattr(whole_logs.time, "time", lambda: self.now)
        monkeypatch.setattr(whole_logs.time, "monotonic", lambda: self.now)

    def _high_watermarks(self, counts: Mapping[str, int]) -> Callable[[], EndOffsets]:
        self.requests += 1
        assert counts == {VIEW.source: 2}
        answer = EndOffsets({VIEW.source: dict(self.high)}, True)
        return lambda: answer

    def read_at(self, now: float, *offsets: int) -> float | None:
        self.now = now
        positions = dict(enumerate(offsets))
        for _ in range(2):  # it asks, and looks at the answer
            self.logs.update({VIEW.name: {VIEW.source: positions} if offsets else {}})
        return self.logs.had_all_at(VIEW.name)


def test_a_view_does_not_have_what_follows_an_open_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: heartbeats said that the job had read everything a moment ago."""
    job = Job(monkeypatch)
    job.high = {0: 7, 1: 5}
    assert job.read_at(100, 7, 5) == 100
    job.high = {0: 7, 1: 9}
    assert [job.read_at(at, 7, 5) for at in (110, 120, 130)] == [100] * 3
    assert job.read_at(131, 7, 9) == 110, "it has the whole log of that time"
    assert job.read_at(141, 7, 9) == 141


def test_nothing_is_known_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(monkeypatch)
    assert job.read_at(100) is None
    job.high = {0: 7, 1: 5}
    assert job.read_at(110, 3, 5) is None
    assert job.read_at(111, 7, 5) == 110


def test_a_rebuild_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(monkeypatch)
    job.high = {0: 7, 1: 5}
    assert job.read_at(100, 7, 5) == 100
    assert job.read_at(101) is None
    assert job.read_at(102, 2, 5) is None


def test_the_brokers_are_asked_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(monkeypatch)
    for second in range(100, 130):
        job.read_at(second, 0, 0)
    assert job.requests == 3


def test_a_partition_without_a_leader_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: after each beat that waited for it, no view had a heartbeat for 5 s."""
    clock, requests = [100.0], []
    answers = [EndOffsets({VIEW.source: {0: 7}}, False)]
    monkeypatch.setattr(whole_logs.time, "time", lambda: clock[0])
    monkeypatch.setattr(whole_logs.time, "monotonic", lambda: clock[0])

    def ask(counts: Mapping[str, int]) -> Callable[[], EndOffsets]:
        requests.append(clock[0])
        return lambda: answers[-1]

    logs = WholeLogs([VIEW, replace(VIEW, name="other")], ask)

    def update(now: float) -> None:
        clock[0] = now
        offsets = {VIEW.name: {VIEW.source: {0: 7}}, "other": {VIEW.source: {0: 7, 1: 5}}}
        logs.update(offsets)

    for now in (100, 101, 109):
        update(now)
    assert (logs.had_all_at(VIEW.name), logs.had_all_at("other")) == (100, None)
    answers.append(EndOffsets({VIEW.source: {0: 7}}, True, "TimeoutException: null"))
    with pytest.raises(OSError, match="TimeoutException"):
        update(110)
    for now in (111, 119):
        update(now)
    assert requests == [100], "it is not asked again at each beat"
    answers.append(EndOffsets({VIEW.source: {0: 7, 1: 5}}, True))
    for now in (120, 121):
        update(now)
    assert requests == [100, 120]
    assert logs.had_all_at("other") == 120
