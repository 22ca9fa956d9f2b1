"""Files of a checkpoint that cannot be written for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from local.waiting import wait_until
from model.pipelines.commands import PAUSE, REBUILD, RESTART, RESUME
from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.unfinished import delete_unfinished
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.controlled import ControlledRunner, of_table


def test_a_file_that_cannot_be_written_ends_no_other_view(
    runner: ControlledRunner,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Regression: the job ended. A rebuild waits until its files can be written, also if the view
    is paused meanwhile."""
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0.1)
    monkeypatch.setattr("spark.supervision.scheduler._MIN_BACKOFF_S", 0.1)
    other = replace(runner.view, name="other", topic=make_topic(cleanup_policy="compact"))
    runner.view = of_table(runner.view)
    runner.settings = replace(runner.settings, views=[runner.view, other])
    checkpoint = Path(runner.settings.checkpoint(runner.view))
    in_the_way = checkpoint / "tables.json.new"

    def logged(text: str) -> Callable[[], bool]:
        return lambda: text in capfd.readouterr().err

    runner.write(b'{"n": 1}')
    with runner.stream():
        # before the file is written again, which is due once the view has caught up
        wait_until((checkpoint / "tables.json").exists, 60, "the first version", 0.02)
        in_the_way.mkdir()
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}})
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}}, "other")
        wait_until(logged(f"{runner.view.name}: cannot store"), 60, "a warning", 0.02)
        runner.begin(REBUILD)
        runner.wait_state("failed")
        assert "cannot rebuild" in runner.progress()["last_error"]
        wait_until(logged(f"cannot rebuild {runner.view.name}"), 60, "another attempt", 0.02)
        runner.send(PAUSE)
        runner.begin(RESUME)
        runner.wait_state("failed")
        runner.write(b'{"n": 2}')
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 2}}, "other")
        assert runner.progress("other")["restarts"] == 0
        in_the_way.rmdir()
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 2}})
        runner.wait_state("running")
        runner.wait_rebuilt()
    assert runner.progress()["input_rows"] == 3, "one row, and both of them in the rebuild"


@pytest.mark.parametrize(
    ("name", "content"), [("tables.json", ""), ("tables.json", "{"), ("generation.json", "{")]
)
def test_a_damaged_file_ends_only_its_view(
    runner: ControlledRunner, make_topic: MakeTopic, name: str, content: str
) -> None:
    """Regression: the job ended, or the file was taken for one that does not exist."""
    other = replace(runner.view, name="other", topic=make_topic(cleanup_policy="compact"))
    runner.view = of_table(runner.view)
    runner.settings = replace(runner.settings, views=[runner.view, other])
    damaged = Path(runner.settings.checkpoint(runner.view)) / name
    damaged.parent.mkdir(parents=True)
    damaged.write_text(content)
    runner.write(b'{"n": 1}')
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}}, "other")
        runner.wait_state("failed")
        assert f"{damaged} cannot be read: " in runner.progress()["last_error"]
        assert damaged.read_text() == content
        damaged.unlink()
        runner.send(RESTART)
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 1}})


def test_a_query_that_was_ended_while_it_wrote_its_first_file_begins_again(
    runner: ControlledRunner,
) -> None:
    """Regression: Spark refused to start it, again and again."""
    name = "0.703972ed-4eed-4a71-94da-962326816e17.tmp"
    checkpoint = Path(runner.settings.checkpoint(runner.view))
    for query in ("view", "dead-letters"):
        offsets = checkpoint / query / "offsets"
        offsets.mkdir(parents=True)
        (offsets / f".{name}").touch()
        (offsets / f"..{name}.crc").touch()
    runner.write(b"one", b"\xff")
    with runner.stream():
        runner.wait_progress(lambda p: p.get("dead_letters") == 1)
        runner.wait_counts(one=1)
        assert runner.progress()["restarts"] == 0


def test_only_temporary_files_of_a_query_without_a_batch_are_deleted(
    session: SparkSession, tmp_path: Path
) -> None:
    """Spark's check finds state whose batches are lost."""
    files, folder = CheckpointFiles(session), tmp_path / "offsets"
    delete_unfinished(files, str(tmp_path))
    folder.mkdir()
    temporary = folder / ".1.703972ed-4eed-4a71-94da-962326816e17.tmp"
    temporary.touch()
    for other in (folder / "0", folder / "other"):
        other.touch()
        delete_unfinished(files, str(tmp_path))
        assert temporary.exists()
        other.unlink()
    delete_unfinished(files, str(tmp_path))
    assert not temporary.exists()
