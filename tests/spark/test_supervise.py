"""The supervisor: progress, failures, and errors about topics."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import InheritableThread
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from local.kafka.broker import Broker
from local.ports import free_ports
from local.waiting import wait_until
from spark.errors import JobError
from spark.formats.decoders import TextDecoder
from spark.sources import Kafka
from spark.supervision.scheduler import QueryScheduler
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from spark.supervision.tasks import running_tasks
from spark.view import View
from spark.views import VIEWS
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.examples import request
from tests.support.spark.runner import Runner


@pytest.fixture
def runner(session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> Runner:
    return Runner(session, broker.bootstrap_servers, make_topic, tmp_path)


def test_progress_describes_the_content_of_the_view_topic(runner: Runner) -> None:
    runner.write(b"one two two", b"\xff", b"two")
    assert runner.once() == {
        "state": "done",
        "restarts": 0,
        "is_final": False,
        "last_error": None,
        "source_offsets": {runner.source: {"0": 3}},
        "input_rows": 3,
        "dropped_rows": 0,
        "late_rows": 0,
        "dead_letters": 1,
        "dead_letter_offsets": {runner.source: {"0": 3}},
    }
    assert runner.counts() == {"one": 1, "two": 3}


def test_a_stream_reports_progress_after_each_batch_and_a_restart(runner: Runner) -> None:
    runner.write(b"one")
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}})
        runner.write(b"one", b"\xff")
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 3}})
        assert runner.counts() == {"one": 2}
        runner.wait_progress(lambda p: p["dead_letters"] == 1 and p["input_rows"] == 3)
    assert runner.settings.progress is not None
    runner.settings.progress.unlink()
    # without new records it still reports its offsets
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 3}})
        runner.wait_progress(lambda p: p["dead_letter_offsets"] == {runner.source: {"0": 3}})
        assert runner.progress()["input_rows"] == 0


def test_a_replayed_micro_batch_counts_nothing_twice(runner: Runner) -> None:
    runner.write(b"one two")
    runner.once()
    runner.write(b"two")
    runner.once()
    # like after a crash between writing a micro-batch and committing it
    commits = Path(runner.settings.checkpoint(runner.view)) / "view" / "commits"
    last = max(
        (path for path in commits.iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
    )
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    runner.write(b"three")
    assert runner.once()["input_rows"] == 2  # the replayed one and the new one
    assert runner.counts() == {"one": 1, "two": 2, "three": 1}


def test_lost_unread_records_are_an_error_with_instructions(runner: Runner) -> None:
    runner.write(b"one", b"two")
    runner.once()
    runner.write(b"three", b"four")
    runner.truncate(2)
    # the deleted records had been read before
    assert runner.once()["source_offsets"] == {runner.source: {"0": 4}}
    runner.write(b"five", b"six")
    runner.truncate(5)
    with pytest.raises(JobError) as raised:
        runner.once()
    message = str(raised.value)
    assert f"topic {runner.source} lost records before they were read" in message
    assert runner.settings.checkpoint(runner.view) in message
    assert "\n" not in message
    assert len(message) < 1000
    assert runner.counts().keys() == {"one", "two", "three", "four"}


def test_views_catch_up_in_turn_and_the_first_writes_dead_letters(
    runner: Runner, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark.supervision.scheduler._MAX_CATCHING_UP", 1)
    started: list[dict[str, Any]] = []
    start = QueryScheduler._start

    def record(scheduler: QueryScheduler, writer: DataStreamWriter) -> None:
        started.append(runner.progress()["source_offsets"])
        start(scheduler, writer)

    monkeypatch.setattr(QueryScheduler, "_start", record)
    second = replace(runner.view, name="second", topic=make_topic(cleanup_policy="compact"))
    runner.settings = replace(runner.settings, views=[runner.view, second])
    runner.write(b"one two", b"\xff")
    first = runner.once()
    assert first["dead_letters"] == 1
    other = runner.progress("second")
    assert other["source_offsets"] == first["source_offsets"] == {runner.source: {"0": 2}}
    assert (other["dead_letters"], other["dead_letter_offsets"]) == (0, {})
    # the first view, its dead letters, and only then the second view
    assert started == [{}, *[first["source_offsets"]] * 2]


def test_a_view_topic_with_more_partitions_ends_the_stream(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0)
    with pytest.raises(JobError, match=r"had 1 partitions and now has 2\. Start again"):
        runner.stream_until(lambda: runner.add_partition(runner.target))


def failing(flag: Path, view: View) -> View:
    """The view, with Python code that fails while the file ``flag`` exists."""

    def fail(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows and flag.exists():
                raise ValueError("broken")
            yield batch

    def derive(texts: DataFrame) -> DataFrame:
        return view.derive(texts.mapInArrow(fail, "text string"))

    return replace(view, derive=derive)


def test_a_failed_query_restarts_and_the_others_continue(
    runner: Runner,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("spark.supervision.scheduler._MIN_BACKOFF_S", 0.1)
    flag = tmp_path / "flag"
    flag.touch()
    bad = failing(flag, runner.view)
    good = replace(runner.view, name="good", topic=make_topic(cleanup_policy="compact"))
    runner.settings = replace(runner.settings, views=[bad, good])
    runner.write(b"one two")
    with runner.stream():
        runner.wait_progress(lambda p: p["restarts"] >= 2)
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}}, "good")
        failed = runner.progress()
        assert (failed["state"], failed["source_offsets"]) == ("failed", {})
        assert "broken" in failed["last_error"]
        other = runner.progress("good")
        assert (other["state"], other["restarts"], other["last_error"]) == ("running", 0, None)
        flag.unlink()
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}})
        assert runner.progress()["state"] == "running"
    assert runner.counts() == {"one": 1, "two": 1}
    assert "broken" in capfd.readouterr().err


def test_a_query_that_cannot_start_is_tried_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark.supervision.scheduler._MIN_BACKOFF_S", 0.1)
    start, refused = QueryScheduler._start, [1, 2]

    def refuse(scheduler: QueryScheduler, writer: DataStreamWriter) -> None:
        if refused:
            refused.pop()
            raise AnalysisException("the checkpoint cannot be read")
        start(scheduler, writer)

    monkeypatch.setattr(QueryScheduler, "_start", refuse)
    runner.write(b"one", b"\xff")
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 2}})
        runner.wait_progress(lambda p: p["dead_letters"] == 1)
    progress = runner.progress()
    assert progress["last_error"] is not None
    assert "the checkpoint cannot be read" in progress["last_error"]
    assert progress["restarts"] == 2


def test_nothing_restarts_after_spark_has_stopped(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    runner.settings = replace(runner.settings, views=[failing(flag, runner.view)])
    monkeypatch.setattr(QueryScheduler, "spark_has_stopped", True)
    runner.write(b"one")
    with pytest.raises(JobError, match="Spark has stopped"), runner.stream() as thread:
        wait_until(lambda: not thread.is_alive(), 60, "the job to end")


def test_with_once_a_failure_is_raised_when_the_others_are_done(
    runner: Runner, make_topic: MakeTopic, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    bad = failing(flag, runner.view)
    good = replace(runner.view, name="good", topic=make_topic(cleanup_policy="compact"))
    runner.settings = replace(runner.settings, views=[bad, good])
    runner.write(b"one two", b"\xff")
    with pytest.raises(JobError, match=r"word-count .* failed: .*broken"):
        runner.once()
    assert runner.progress("good")["source_offsets"] == {runner.source: {"0": 2}}
    assert runner.progress("good")["state"] == "done"
    # dead letters are written in spite of the failure
    assert runner.progress()["dead_letters"] == 1
    flag.unlink()
    assert runner.once()["source_offsets"] == {runner.source: {"0": 2}}
    assert runner.counts() == {"one": 1, "two": 1}


def test_late_records_are_counted(runner: Runner, make_topic: MakeTopic) -> None:
    weblog = VIEWS["requests-per-host"]
    view = replace(weblog, source=runner.source, topic=runner.target)
    runner.settings = replace(runner.settings, views=[view])
    # the records have the current time as their timestamps
    runner.write(request(1, "10:00:00")[1], request(2, "10:00:00")[1], b"no JSON")
    supervise(runner.session, runner.settings, StopSignal())
    progress = runner.progress(view.name)
    assert (progress["late_rows"], progress["dead_letters"]) == (2, 3)
    assert progress["dropped_rows"] == 0


@pytest.mark.parametrize("which", ["source", "target"])
def test_a_recreated_topic_is_an_error_at_the_start(runner: Runner, which: str) -> None:
    runner.write(b"one", b"two")
    runner.once()
    runner.recreate(getattr(runner, which))
    runner.write(*[b"new"] * 9)  # more than before: Spark itself would continue at offset 2
    with pytest.raises(JobError, match=f"topic {getattr(runner, which)} was deleted or recreated"):
        runner.once()


def test_a_topic_that_is_deleted_ends_the_stream(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0)
    with pytest.raises(JobError, match=f"topic {runner.target} was deleted"):
        runner.stream_until(lambda: runner.recreate(runner.target))


def fail(*_: object) -> DataFrame:
    raise KeyError("no such column")


class WrongDecoder(TextDecoder):
    malformed = fail


@pytest.mark.parametrize(
    ("wrong", "where"), [({"derive": fail}, "derive"), ({"decoder": WrongDecoder()}, "decoder")]
)
def test_a_function_that_raises_ends_only_its_view(
    runner: Runner, make_topic: MakeTopic, wrong: dict[str, Any], where: str
) -> None:
    topic = make_topic(cleanup_policy="compact")
    view = replace(runner.view, name="wrong", topic=topic, **wrong)
    runner.settings = replace(runner.settings, views=[view, runner.view])
    runner.write(b"one")
    with pytest.raises(JobError, match=rf"^wrong: {where}: KeyError: 'no such column'$"):
        runner.once()
    assert runner.counts() == {"one": 1}
    assert (runner.progress("wrong")["state"], runner.progress()["state"]) == ("failed", "done")


def test_a_missing_topic_is_named_after_the_deadline(
    runner: Runner, capfd: pytest.CaptureFixture[str]
) -> None:
    view = replace(runner.view, source="no-such-topic")
    runner.settings = replace(runner.settings, views=[view], topics_deadline=0.1)
    with pytest.raises(JobError, match=r"no topic no-such-topic .* Create it"):
        runner.once()
    assert "waiting up to 0.1 s for topic no-such-topic" in capfd.readouterr().err


def test_unreachable_brokers_are_named(runner: Runner, unused_port: int) -> None:
    servers = f"127.0.0.1:{unused_port}"
    options = {"request.timeout.ms": "300", "default.api.timeout.ms": "400"}
    runner.settings = replace(runner.settings, kafka=Kafka(servers, options), topics_deadline=0.1)
    with pytest.raises(JobError, match=f"the brokers at {servers} do not answer"):
        runner.once()


def test_a_progress_file_that_cannot_be_written_ends_the_job(
    runner: Runner, tmp_path: Path
) -> None:
    runner.settings = replace(runner.settings, progress=tmp_path)
    with pytest.raises(JobError, match="cannot write"):
        runner.once()


@pytest.fixture
def unused_port() -> int:
    return free_ports(1)[0]


def test_a_missing_java_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark.run", "--checkpoint-dir", "x"],
        env={**os.environ, "JAVA_HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "JAVA_HOME (JDK 17+)" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_query_restarts_after_its_tasks_have_ended(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("spark.supervision.scheduler._MIN_BACKOFF_S", 0.1)
    monkeypatch.setattr("spark.supervision.scheduler._TASKS_INTERVAL_S", 0.1)
    checked: list[str] = []

    def running(_: SparkSession, run: str) -> int:
        checked.append(run)
        assert runner.progress()["restarts"] == 0
        if len(checked) == 3:
            flag.unlink()
            return 0
        return 1

    monkeypatch.setattr("spark.supervision.scheduler.running_tasks", running)
    flag = tmp_path / "flag"
    flag.touch()
    runner.settings = replace(runner.settings, views=[failing(flag, runner.view)])
    runner.write(b"one")
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}})
    assert len(checked) == 3
    assert len({*checked}) == 1
    assert runner.progress()["restarts"] == 1


def test_running_tasks_of_a_group_are_counted(session: SparkSession, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()

    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            wait_until(lambda: not flag.exists(), 60, "the end of the test", 0.02)
            yield batch

    def run() -> None:
        session.sparkContext.setJobGroup("a-run", "test")
        session.range(2, numPartitions=2).mapInArrow(wait, "id long").collect()

    assert running_tasks(session, "a-run") == 0
    thread = InheritableThread(target=run, session=session)
    thread.start()
    wait_until(lambda: running_tasks(session, "a-run") == 2, 60, "two tasks", 0.05)
    assert running_tasks(session, "another-run") == 0
    flag.unlink()
    thread.join(60)
    wait_until(lambda: running_tasks(session, "a-run") == 0, 60, "no task", 0.05)
