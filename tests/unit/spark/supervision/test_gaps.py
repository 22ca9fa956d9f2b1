"""The listener notes when a view did not have all records of its sources."""

from __future__ import annotations

from datetime import UTC, datetime
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark.supervision import progress as progress_module
from spark.supervision.events import Event
from spark.supervision.progress import ProgressListener


class Listener:
    """The listener of a job with the view ``v``, and a clock. Times are in epoch s."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.step = 0.0  # by which the time of day was set forward
        clock = SimpleNamespace(
            time=lambda: self.now + self.step,
            monotonic=lambda: 50 + self.now,
        )
        monkeypatch.setattr(progress_module, "time", clock)
        monkeypatch.setattr(progress_module, "boot_time", clock.monotonic)
        events: SimpleQueue[Event] = SimpleQueue()
        queries = SimpleNamespace(get=lambda _: SimpleNamespace(lastProgress=progress(0.0, 9, 9)))
        session = cast(Any, SimpleNamespace(streams=queries))
        self.of_job = ProgressListener(session, None, ["v"], events)

    def batch(self, at: float, end: int, latest: int, seconds: float = 1.0) -> None:
        """A micro-batch that began at ``at``, and is reported ``seconds`` later."""
        self.now = at + seconds
        event = SimpleNamespace(progress=progress(at + self.step, end, latest))
        self.of_job.onQueryProgress(cast(Any, event))

    def idle(self, at: float) -> None:
        self.now = at
        event = SimpleNamespace(id="v", timestamp=text(at + self.step))
        self.of_job.onQueryIdle(cast(Any, event))

    @property
    def gaps(self) -> list[tuple[float | None, float | None, float]]:
        """(began, seconds, ended)"""
        return [gap[1:] for gap in self.of_job.statuses()["v"].gaps]


def text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def progress(at: float, end: int, latest: int) -> Any:
    offsets = (f'{{"raw":{{"0":{offset}}}}}' for offset in (end, latest))
    source = SimpleNamespace(**dict(zip(("endOffset", "latestOffset"), offsets, strict=True)))
    return SimpleNamespace(
        name="v", sources=[source], stateOperators=[], numInputRows=1, batchDuration=100,
        timestamp=text(at), inputRowsPerSecond=0.0, processedRowsPerSecond=0.0, eventTime={},
    )  # fmt: skip


def test_a_gap_begins_with_the_last_time_at_which_the_view_had_all_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = Listener(monkeypatch)
    listener.batch(1_000, 5, 9)
    assert listener.gaps == []
    listener.batch(1_010, 9, 9)
    assert listener.gaps == [(None, None, 1_010)], "since the start of the process"
    listener.idle(1_070)
    listener.batch(1_100, 10, 12)
    listener.batch(1_150, 11, 12)
    assert listener.gaps[1:] == [], "it has not ended"
    listener.batch(1_200, 12, 12, seconds=500)
    assert listener.gaps[1:] == [(1_070, 130, 1_200)]
    listener.idle(1_800)
    assert listener.gaps[2:] == [(1_200, 600, 1_800)]


def test_the_gaps_before_a_rebuild_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(monkeypatch)
    listener.batch(1_000, 9, 9)
    listener.batch(2_000, 9, 9)
    listener.of_job.rebuilding("v")
    listener.batch(3_000, 9, 9)
    assert listener.gaps == [(None, None, 3_000)]


def test_a_change_of_the_time_of_day_is_no_gap_and_hides_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = Listener(monkeypatch)
    listener.batch(1_000, 9, 9)
    listener.step = 100_000
    listener.idle(1_010)
    assert listener.gaps[1:] == []
    listener.step = 0
    listener.idle(1_310)
    assert listener.gaps[1:] == [(101_010, 300, 1_310)]


def test_the_longest_gaps_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(monkeypatch)
    at = 1_000.0
    listener.batch(at, 9, 9)
    for seconds in (*(70.0,) * 15, 9_000.0, *(70.0,) * 15):
        at += seconds
        listener.batch(at, 9, 9)
    assert len(listener.gaps) == 16
    assert (listener.gaps[0][:2], max(gap[1] or 0 for gap in listener.gaps)) == (
        (None, None), 9_000,
    )  # fmt: skip
