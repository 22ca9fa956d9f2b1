"""When a view of a table may start or go on, although it is behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

from spark.errors import JobError, Unavailable
from spark.formats.decoders import JsonDecoder
from spark.supervision import tombstones
from spark.supervision.status import MIN_GAP_S, Gap
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
        self.status = SimpleNamespace(state="running", error=None, caught_up_at=None, gaps=[])
        self.logged: list[str] = []
        self.guard = TombstoneGuard(
            cast(Any, None), cast(Any, admin), cast(Any, settings),
            cast(Any, lambda: {"v": self.status}), self.logged.append,
        )  # fmt: skip

    def is_current(self) -> None:
        """As the listener notes it; then the guard stores it."""
        before = self.status.caught_up_at
        if before is None or self.now - before > MIN_GAP_S:
            seconds = None if before is None else self.now - before
            number = len(self.status.gaps) + 1
            self.status.gaps.append(Gap(number, before, seconds, self.now))
        self.status.caught_up_at = self.now
        self.guard.keep()

    def missed(self) -> str:
        """Why the running view is stopped."""
        return self.guard.missed([self.view]).get("v", "")


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


def test_a_load_that_takes_longer_than_tombstones_are_kept_ends_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    """Regression: a row stayed, without a word, if it was deleted after the view had read it and
    the tombstone was removed before the view got there."""
    job = Job(monkeypatch, files, DAY)
    job.guard.check(job.view)
    job.now += 0.9 * DAY
    job.is_current()
    assert not job.logged
    job.guard.begin("v")
    job.status.caught_up_at = None
    job.now += 1.1 * DAY
    job.guard.keep()
    job.guard.check(job.view)
    assert not job.logged, "it has not ended"
    for _ in range(2):
        job.is_current()
        job.now += 70
    [warning] = job.logged
    assert warning.startswith("warning: v: the load took 95040 s, but topic raw keeps tombstones ")
    assert "for 86400 s (delete.retention.ms)" in warning
    assert "Set it to more than 95040000, and rebuild the view" in warning
    later = Job(monkeypatch, files, DAY)
    later.now = job.now
    later.guard.check(later.view)
    later.is_current()
    assert not later.logged


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
        job.is_current()
        job.now += 50
        job.is_current()
        job.now += 11
        job.is_current()
    job.now += 10
    job.is_current()  # too early for another attempt
    assert files.documents[path] == before
    assert len(job.logged) == 2
    assert "v: cannot store" in job.logged[0]
    assert "the file system does not answer" in job.logged[0]
    files.fails = False
    job.now += 51
    job.is_current()
    assert files.documents[path] == {"current_at": job.now * 1000}


def test_a_view_that_is_behind_for_too_long_is_stopped_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    """Regression: only starts were checked. When the view had caught up, rows stayed whose
    tombstones it had missed."""
    job = Job(monkeypatch, files, DAY)
    job.guard.check(job.view)
    job.now += 1.1 * DAY
    assert not job.missed(), "its first load may take long"
    job.is_current()
    last = files.documents["/v/tables.json"]
    job.now += 0.9 * DAY
    assert not job.missed()
    job.now += 0.2 * DAY
    assert "keeps tombstones for 86400 s" in job.missed()
    assert not job.missed(), "it is reported once"
    # it has caught up before it was stopped
    job.is_current()
    job.guard.keep(is_last=True)
    assert files.documents["/v/tables.json"] == last
    with pytest.raises(JobError, match="keeps tombstones for 86400 s"):
        job.guard.check(job.view)
    job.guard.begin("v")
    job.guard.check(job.view)
    assert not job.missed()


def test_a_view_that_was_behind_for_too_long_between_two_checks_is_stopped(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    """Regression: only how far it was behind at a check counted, and a view catches up quickly
    when the brokers are back. Rows stayed whose tombstones it had missed."""
    job = Job(monkeypatch, files, DAY)
    job.guard.check(job.view)
    job.is_current()
    last = files.documents["/v/tables.json"]
    job.now += 1.1 * DAY
    job.is_current()
    assert files.documents["/v/tables.json"] == last, "another process would not know of it"
    job.now += 1
    assert "keeps tombstones for 86400 s" in job.missed()
    with pytest.raises(JobError, match="keeps tombstones for 86400 s"):
        job.guard.check(job.view)
    later = Job(monkeypatch, files, DAY)
    later.now = job.now
    with pytest.raises(JobError, match="keeps tombstones for 86400 s"):
        later.guard.check(later.view)
    job.guard.begin("v")
    job.guard.check(job.view)
    assert not job.missed()
    job.is_current()
    assert files.documents["/v/tables.json"]["current_at"] == job.now * 1000


def test_a_gap_after_the_start_counts_from_what_is_stored(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    job = Job(monkeypatch, files, DAY)
    job.guard.check(job.view)
    job.is_current()
    later = Job(monkeypatch, files, DAY)
    later.now = job.now + 0.9 * DAY
    later.guard.check(later.view)
    later.now += 0.2 * DAY
    later.is_current()
    assert "keeps tombstones for 86400 s" in later.missed()


def test_short_gaps_do_not_add_up(monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    job = Job(monkeypatch, files, DAY)
    job.guard.check(job.view)
    for _ in range(3):
        job.is_current()
        stored = files.documents["/v/tables.json"]
        assert stored == {"current_at": job.now * 1000}, "also if the job ends now"
        assert not job.missed()
        job.now += 0.9 * DAY
    job.guard.check(job.view)


def test_a_view_goes_on_if_it_is_not_known_how_long_tombstones_are_kept(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    def config(topic: str, name: str) -> str:
        raise Unavailable("the brokers do not answer")

    job = Job(monkeypatch, files, DAY)
    job.guard.check(job.view)
    job.is_current()
    job.now += 1.1 * DAY
    with monkeypatch.context() as patched:
        patched.setattr(job.guard, "_admin", SimpleNamespace(config=config))
        assert not job.missed()
        job.is_current()
        assert not job.missed()
    assert "keeps tombstones for 86400 s" in job.missed(), "it is looked at when they answer"


def test_kafkas_default_counts_if_the_job_may_not_read_how_long_tombstones_are_kept(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    """Regression: without DescribeConfigs, no view was stopped, and no warning said so."""
    job = Job(monkeypatch, files, DAY)
    monkeypatch.setattr(job.guard, "_admin", SimpleNamespace(config=lambda topic, name: None))
    for _ in range(2):
        job.guard.check(job.view)
    [warning] = job.logged
    assert warning.startswith("warning: v: the job may not read delete.retention.ms of topic raw")
    assert "DescribeConfigs" in warning
    job.is_current()
    job.now += 0.9 * DAY
    assert not job.missed()
    job.now += 0.2 * DAY
    assert "keeps tombstones for 86400 s (the default of delete.retention.ms" in job.missed()


def test_a_table_that_is_not_compacted_keeps_its_tombstones(
    monkeypatch: pytest.MonkeyPatch, files: Files
) -> None:
    job = Job(monkeypatch, files, DAY)
    config = {"delete.retention.ms": "1000", "cleanup.policy": "delete"}
    admin = SimpleNamespace(config=lambda topic, name: config[name])
    monkeypatch.setattr(job.guard, "_admin", admin)
    job.guard.check(job.view)
    job.is_current()
    job.now += 9 * DAY
    job.guard.check(job.view)
    assert not job.missed()
    assert not job.logged
