"""Readers, metrics and the health check show a dead or lagging job."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from local.waiting import wait_until
from spark.health import problem
from spark.kafka_admin import Commit, EndOffsets, TopicPartition
from spark.supervision.events import Event, RowsDropped
from spark.supervision.heartbeats import Heartbeats
from spark.supervision.progress import ProgressListener
from spark.supervision.status import RUNNING, STARTING, ViewStatus
from spark.view import View
from spark.views import VIEWS

VIEW = VIEWS["word-count"]
FIRST, SECOND = (TopicPartition(VIEW.source, number) for number in range(2))


class FakeGroups:
    """Consumer groups of a broker that may be unreachable."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[TopicPartition, tuple[int, str]]] = {}
        self.is_unreachable = False
        self.denied = ""

    def committed(self, group: str) -> dict[TopicPartition, int]:
        if group == self.denied:
            raise PermissionError(f"GroupAuthorizationException: {group}")
        return {unit: offset for unit, (offset, _) in self.offsets.get(group, {}).items()}

    def commit(self, commits: dict[str, Commit]) -> dict[str, OSError]:
        if self.is_unreachable:
            raise TimeoutError("TimeoutException: no answer")
        for group, commit in commits.items():
            if group != self.denied:
                self.offsets.setdefault(group, {}).update(commit)
        denied = {self.denied} & commits.keys()
        return {group: PermissionError(f"GroupAuthorizationException: {group}") for group in denied}


class ManualHeartbeats:
    """Heartbeats of views that the test sends. All have the same status."""

    def __init__(self, health: Path | None = None, *others: View) -> None:
        self.groups = FakeGroups()
        self.status = ViewStatus(STARTING, {}, None, None)
        self.messages: list[str] = []
        views = [*others, VIEW]
        self.heartbeats = Heartbeats(
            self.groups,  # type: ignore[arg-type]
            views,
            "job-",
            lambda: {view.name: self.status for view in views},
            health,
            self.messages.append,
            high_watermarks=self._high_watermarks,
        )

    def _high_watermarks(self, _: Mapping[str, int]) -> Callable[[], EndOffsets]:
        if self.groups.is_unreachable:
            return lambda: EndOffsets({}, True, "TimeoutException: no answer")
        return lambda: EndOffsets({VIEW.source: {0: 7, 1: 5}}, True)

    def beat(self) -> tuple[dict[TopicPartition, int], dict[str, Any]]:
        """Sends a heartbeat; returns the group's offsets, and the heartbeat."""
        self.heartbeats.beat()
        group = f"job-{VIEW.name}"
        heartbeat: dict[str, Any] = json.loads(self.groups.offsets[group][FIRST][1])
        return self.groups.committed(group), heartbeat


def test_what_was_read_is_committed_with_a_heartbeat() -> None:
    manual = ManualHeartbeats()
    offsets, heartbeat = manual.beat()
    assert (offsets, heartbeat["state"]) == ({FIRST: 0}, "starting")
    manual.status = ViewStatus(RUNNING, {VIEW.source: {0: 7, 1: 5}}, None, 0.5)
    before = time.time_ns() // 1_000_000
    manual.beat()  # asks for the ends
    offsets, first = manual.beat()
    assert before <= first["caught_up_at"] <= time.time_ns() // 1_000_000
    assert (offsets, first["state"]) == ({FIRST: 7, SECOND: 5}, "running")
    time.sleep(0.002)
    assert manual.beat()[1]["at"] > first["at"], "a heartbeat without new records"
    manual.status = manual.status._replace(state="failed", error="x" * 9_000)
    heartbeat = manual.beat()[1]
    assert heartbeat["state"] == "failed"
    assert len(heartbeat["error"]) <= 300


def test_a_restarted_job_keeps_its_committed_offsets_until_it_has_read_its_checkpoint() -> None:
    manual = ManualHeartbeats()
    manual.groups.offsets["job-word-count"] = {FIRST: (9, "")}
    offsets, heartbeat = manual.beat()
    assert (offsets, heartbeat["state"]) == ({FIRST: 9}, "starting")


def test_the_last_heartbeat_has_the_error_that_ended_the_job() -> None:
    manual = ManualHeartbeats()
    manual.status = ViewStatus(RUNNING, {VIEW.source: {0: 7}}, None, 0.5)
    manual.heartbeats.ending(ValueError("no memory"))
    heartbeat = manual.beat()[1]
    assert (heartbeat["state"], heartbeat["error"]) == ("stopped", "no memory")


def test_offsets_are_committed_after_the_broker_was_unreachable() -> None:
    manual = ManualHeartbeats()
    manual.status = ViewStatus(RUNNING, {VIEW.source: {0: 7, 1: 5}}, None, 0.5)
    manual.groups.is_unreachable = True
    with manual.heartbeats:
        wait_until(lambda: manual.messages, 10, "the warning")
        manual.groups.is_unreachable = False
    assert manual.groups.committed("job-word-count") == {FIRST: 7, SECOND: 5}
    assert len(manual.messages) == 1


def test_a_group_that_the_job_may_not_read_or_write_does_not_stop_the_others() -> None:
    """Regression: no view had a heartbeat, before and after the offsets of the first were known."""
    denied = replace(VIEW, name="denied")
    manual = ManualHeartbeats(None, denied)
    manual.groups.denied = "job-denied"
    assert manual.beat()[1]["state"] == "starting"
    manual.status = ViewStatus(RUNNING, {VIEW.source: {0: 7, 1: 5}}, None, 0.5)
    offsets, heartbeat = manual.beat()
    assert (offsets, heartbeat["state"]) == ({FIRST: 7, SECOND: 5}, "running")
    [warning] = manual.messages
    assert "cannot commit the offsets of denied: GroupAuthorizationException" in warning
    # all offsets are committed when the job may write them
    manual.groups.denied = ""
    manual.beat()
    assert manual.groups.committed("job-denied") == {FIRST: 7, SECOND: 5}


def test_a_health_file_that_cannot_be_written_does_not_stop_the_heartbeats(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    manual = ManualHeartbeats(tmp_path / "file" / "health.json")
    manual.status = ViewStatus(RUNNING, {VIEW.source: {0: 7}}, None, 0.5)
    offsets, heartbeat = manual.beat()
    assert (offsets, heartbeat["state"]) == ({FIRST: 7}, "running")
    assert "health.json" in manual.messages[0]


def test_dropped_rows_are_reported_at_once_and_then_less_often() -> None:
    events: SimpleQueue[Event] = SimpleQueue()
    session: Any = SimpleNamespace(streams=None)
    progress = ProgressListener(session, None, ["visits"], events)
    found = []
    for dropped in (0, 3, 1, 0, 2):
        operator = SimpleNamespace(
            numRowsDroppedByWatermark=dropped, numRowsTotal=2, memoryUsedBytes=100
        )
        batch: Any = SimpleNamespace(
            name="visits",
            sources=[],
            stateOperators=[operator],
            numInputRows=9,
            batchDuration=9_000,
            timestamp="2026-01-01T10:00:00Z",
            inputRowsPerSecond=float("nan"),
            processedRowsPerSecond=1 / 3,
            eventTime={"watermark": "2026-01-01T09:00:00.000Z"},
        )
        event: Any = SimpleNamespace(progress=batch)
        progress.onQueryProgress(event)
    while not events.empty():
        found.append(events.get())
    assert progress.statuses()["visits"].stats == {
        "processed_rate": 0.333,
        "batch_ms": 9_000,
        "state_rows": 2,
        "state_bytes": 100,
        "watermark": 1_767_258_000_000,
        "input_rows": 45,
        "late_rows": 0,
        "dropped_rows": 6,
        "dead_letters": 0,
        "restarts": 0,
    }
    assert [each for each in found if isinstance(each, RowsDropped)] == [
        RowsDropped("visits", 3),
        RowsDropped("visits", 6),
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"at": 95, "views": {}}, None),
        ({"at": 84, "views": {}}, "has written nothing for 16 s"),
        ({"at": 99, "views": {"a": ("running", 299)}}, None),
        ({"at": 99, "views": {"a": ("running", 301)}}, "view a has made no progress for 301 s"),
        ({"at": 99, "views": {"a": ("starting", None), "b": ("failed", 1)}}, "view b has failed"),
        ({"at": 99, "views": {"b": ("failed", 400)}}, "view b has failed"),
        ([], "not written by"),
        ({"at": None}, "not written by"),
    ],
)
def test_a_job_that_is_dead_stuck_or_failing_is_unhealthy(
    document: Any, message: str | None
) -> None:
    if isinstance(document, dict) and "views" in document:
        names = ("state", "silent_seconds", "error")
        document = {
            **document,
            "views": {
                name: dict(zip(names, (*view, "why"), strict=True))
                for name, view in document["views"].items()
            },
        }
    wrong = problem(document, now=100)
    assert wrong is None if message is None else message in str(wrong)
    wrong = problem(document, now=100, liveness=True)
    if message is None or "has failed" in message:
        assert wrong is None
    else:
        assert message in str(wrong)
