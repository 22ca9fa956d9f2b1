"""When a view of a table may start, although it is behind. The rest is tested with a real job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

from spark.errors import JobError
from spark.formats.decoders import JsonDecoder
from spark.supervision import tombstones
from spark.supervision.tombstones import TombstoneGuard

DAY = 86_400.0  # s


class Files:
    """The files of checkpoints, in memory."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.fails = False

    def read_json(self, path: str) -> Any:
        return self.documents.get(path)

    def replace_json(self, path: str, document: Any) -> None:
        if self.fails:
            raise PySparkException("the file system does not answer")
        self.documents[path] = document


class Job:
    """A job with one view of a table, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, files: Files, retention: float) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr(tombstones, "time", SimpleNamespace(time=lambda: self.now))
        monkeypatch.setattr(tombstones, "CheckpointFiles", lambda session: files)
        config = {"delete.retention.ms": str(int(retention * 1000)), "cleanup.policy": "compact"}
        admin = SimpleNamespace(config=lambda topic, name: config[name])
        decoder = JsonDecoder(StructType([StructField("n", LongType())]), is_table=True)
        source = SimpleNamespace(decoder=decoder, topic="raw")
        self.view = cast(Any, SimpleNamespace(name="v", streams=[source]))
        settings = SimpleNamespace(
            once=False, views=[self.view], checkpoint=lambda view: f"/{view.name}"
        )
        self.status = SimpleNamespace(state="running", error=None, caught_up_at=None)
        self.logged: list[str] = []
        self.guard = TombstoneGuard(
            cast(Any, None), cast(Any, admin), cast(Any, settings),
            cast(Any, lambda: {"v": self.status}), self.logged.append,
        )  # fmt: skip

    def is_current(self) -> None:
        self.status.caught_up_at = self.now
        self.guard.keep()


@pytest.fixture
def files() -> Files:
    return Files()


def test_the_first_load_may_take_long(monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    """Regression: its query failed once after a day, and the view was refused for good."""
    job = Job(monkeypatch, files, DAY)
    job.guard.check(job.view)
    job.now += 1.1 * DAY
    job.guard.check(job.view)
    job.is_current()
    job.now += 0.9 * DAY
    job.guard.check(job.view)
    job.now += 0.2 * DAY
    with pytest.raises(JobError, match="keeps tombstones for 86400 s"):
        job.guard.check(job.view)


def test_another_process_does_not_continue_a_load_that_was_stopped(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    Job(monkeypatch, files, DAY).guard.check(cast(Any, Job(monkeypatch, files, DAY).view))
    later = Job(monkeypatch, files, DAY)
    later.now += 1.1 * DAY
    with pytest.raises(JobError, match="keeps tombstones for 86400 s"):
        later.guard.check(later.view)


def test_a_view_with_a_short_retention_starts_again_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    """Regression: with delete.retention.ms=1000, each failure of its query was final."""
    job = Job(monkeypatch, files, 1.0)
    job.guard.check(job.view)
    job.is_current()
    job.now += 30
    job.guard.check(job.view)
    job.now += 60
    with pytest.raises(JobError, match="keeps tombstones for 1 s"):
        job.guard.check(job.view)


def test_a_time_that_cannot_be_stored_is_stored_later(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    """Regression: an error of the file system ended the job, with all its views."""
    job = Job(monkeypatch, files, DAY)
    job.guard.check(job.view)
    [path] = files.documents
    before = files.documents[path]
    files.fails = True
    for _ in range(2):
        job.now += 70
        job.is_current()
    job.now += 10
    job.is_current()  # too early for another attempt
    assert files.documents[path] == before
    assert len(job.logged) == 2
    assert "v: cannot store" in job.logged[0]
    assert "the file system does not answer" in job.logged[0]
    files.fails = False
    job.now += 70
    job.is_current()
    assert files.documents[path] == {"current_at": job.now * 1000}
