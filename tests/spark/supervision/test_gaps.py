"""The listener notes when a view did not have all records of its sources."""

from __future__ import annotations

from datetime import UTC, datetime
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

from spark.supervision.events import Event
from spark.supervision.progress import ProgressListener


class Listener:
    """The listener of a job with the view ``v``. Times are in epoch s."""

    def __init__(self) -> None:
        events: SimpleQueue[Event] = SimpleQueue()
        queries = SimpleNamespace(get=lambda _: SimpleNamespace(lastProgress=progress(0.0, 9, 9)))
        session = cast(Any, SimpleNamespace(streams=queries))
        self.of_job = ProgressListener(session, None, ["v"], events)

    def batch(self, at: float, end: int, latest: int) -> None:
        event = SimpleNamespace(progress=progress(at, end, latest))
        self.of_job.onQueryProgress(cast(Any, event))

    def idle(self, at: float) -> None:
        self.of_job.onQueryIdle(cast(Any, SimpleNamespace(id="v", timestamp=text(at))))

    @property
    def gaps(self) -> list[Any]:
        return list(self.of_job.statuses()["v"].gaps)


def text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def progress(at: float, end: int, latest: int) -> Any:
    offsets = (f'{{"raw":{{"0":{offset}}}}}' for offset in (end, latest))
    source = SimpleNamespace(**dict(zip(("endOffset", "latestOffset"), offsets, strict=True)))
    return SimpleNamespace(
        name="v", sources=[source], stateOperators=[], numInputRows=1, batchDuration=100,
        timestamp=text(at), inputRowsPerSecond=0.0, processedRowsPerSecond=0.0, eventTime={},
    )  # fmt: skip


def test_a_gap_begins_with_the_last_time_at_which_the_view_had_all_records() -> None:
    listener = Listener()
    listener.batch(1_000, 5, 9)
    assert listener.gaps == []
    listener.batch(1_010, 9, 9)
    assert listener.gaps == [(None, 1_010)], "since the start of the process"
    listener.idle(1_070)
    listener.batch(1_100, 10, 12)
    listener.batch(1_150, 11, 12)
    assert listener.gaps[1:] == [], "it has not ended"
    listener.batch(1_200, 12, 12)
    assert listener.gaps[1:] == [(1_070, 1_200)]
    listener.idle(1_300)
    assert listener.gaps[2:] == [(1_200, 1_300)]


def test_the_gaps_before_a_rebuild_do_not_count() -> None:
    listener = Listener()
    listener.batch(1_000, 9, 9)
    listener.batch(2_000, 9, 9)
    listener.of_job.rebuilding("v")
    listener.batch(3_000, 9, 9)
    assert listener.gaps == [(None, 3_000)]
