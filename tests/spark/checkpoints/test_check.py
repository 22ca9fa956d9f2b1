"""A view continues only a checkpoint of its own rule and revision."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from local.waiting import wait_until
from spark.checkpoints.check import FILE, CheckpointRefused, check_view
from spark.checkpoints.files import CheckpointFiles
from spark.discovery import find_view
from spark.errors import JobError
from spark.settings import Settings
from spark.sources import Kafka
from spark.view import View
from spark.views import VIEWS
from tests.spark.derive.support import view_of
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.runner import Runner

WORDS = VIEWS["word-count"]
CODE = """
from pyspark.sql import functions as F

from spark.raw_topics.texts import TEXTS
from spark.view import View


def derive(texts):
    return texts.select(F.upper("text").alias("key"), F.lit("").alias("value"))


VIEW = View(source="texts", decoder=TEXTS, derive=derive)
"""


class Checkpoint:
    """A checkpoint of a view, with state as soon as the view was started."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self.logged: list[str] = []
        self._files = 0

    def start(self, view: View) -> None:
        chosen = Settings([view], Kafka(""), checkpoint_dir=str(self.folder))
        check_view(self.session, view, chosen, self.logged.append)
        offsets = self.folder / view.name / "view" / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets / "0").touch()

    def of_file(self, text: str) -> View:
        """The view of a file with this content."""
        # Python would not notice a change of one character within a second.
        self._files += 1
        path = self.folder / f"{self._files}" / "words.py"
        path.parent.mkdir()
        path.write_text(text)
        return find_view(str(path))

    def refused(self, view: View) -> str:
        before = self.content(view)
        with pytest.raises(CheckpointRefused) as raised:
            self.start(view)
        assert self.content(view) == before
        return str(raised.value)

    def content(self, view: View) -> str | None:
        path = self.path(view)
        return path.read_text() if path.exists() else None

    def path(self, view: View) -> Path:
        return self.folder / view.name / FILE


@pytest.fixture
def checkpoint(session: SparkSession, tmp_path: Path) -> Checkpoint:
    return Checkpoint(session, tmp_path)


def test_each_view_continues_its_checkpoint(checkpoint: Checkpoint) -> None:
    for view in VIEWS.values():
        checkpoint.start(view)
        checkpoint.start(view)
    assert checkpoint.logged == []
    assert not list(checkpoint.folder.glob("*/*.new"))
    found = json.loads(checkpoint.content(WORDS) or "")
    assert (found["view"], found["topic"], found["sources"]) == (
        "word-count",
        "word-count",
        ["texts"],
    )
    assert (found["revision"], found["state_store"]) == (1, "RocksDBStateStoreProvider")


def test_edited_code_is_refused_with_what_to_do(checkpoint: Checkpoint) -> None:
    checkpoint.start(checkpoint.of_file(CODE))
    checkpoint.start(checkpoint.of_file(f"# a comment\n{CODE}"))
    edited = checkpoint.of_file(CODE.replace("upper", "lower"))
    message = checkpoint.refused(edited)
    assert message.startswith("words is not started: its rule is not that of the checkpoint ")
    assert "its code was edited" in message
    assert '[views."words@2"]' in message
    assert "declare revision=1 in its View(…)" in message
    assert len(message) < 1200
    # the edit is undone
    checkpoint.start(checkpoint.of_file(CODE))
    assert checkpoint.logged == []


def test_the_revision_decides_if_it_is_declared(checkpoint: Checkpoint) -> None:
    checkpoint.start(checkpoint.of_file(CODE))
    # as the message says
    edited = CODE.replace("upper", "lower").replace("derive=", "revision=1, derive=")
    checkpoint.start(checkpoint.of_file(edited))
    news = "words: its code was edited. It continues, because its revision is still 1."
    assert checkpoint.logged == [news]
    checkpoint.start(checkpoint.of_file(edited))
    assert checkpoint.logged == [news]  # once
    message = checkpoint.refused(checkpoint.of_file(edited.replace("revision=1", "revision=2")))
    assert "has revision 1, and the view has revision 2" in message
    # without a revision, the code decides again
    checkpoint.refused(checkpoint.of_file(CODE))


def test_an_edited_table_is_refused(checkpoint: Checkpoint) -> None:
    table = """
        [views.words.derive]
        from = "texts"
        where = "text > 'a'"
        key = "text"
        count = true
    """
    checkpoint.start(view_of(table))
    checkpoint.start(view_of(table.replace("text > 'a'", "text>'a'")))
    message = checkpoint.refused(view_of(table.replace("> 'a'", ">= 'a'")))
    assert """: filter is "text>='a'" instead of "text>'a'". Its topic""" in message
    assert "revision" not in message
    message = checkpoint.refused(view_of(f'{table.replace("count", "distinct")}'.replace(
        "distinct = true", "distinct = 'text'"
    )))  # fmt: skip
    assert "count is gone; distinct is new" in message
    # the format of keys and values
    entry = '[views.words]\nvalue = "json"\n'
    message = checkpoint.refused(view_of(entry + table))
    assert "view value is json instead of int64" in message


def test_a_join_of_an_earlier_release_continues_as_a_static_one(checkpoint: Checkpoint) -> None:
    """Earlier releases had only static joins, without the key ``static``."""
    fields = 'from = "customers", on = "text", fields = { name = "string" }'
    table = f"""
        [views.words.derive]
        from = "texts"
        key = "text"
        select = "buyer.name"
        join.buyer = {{ {fields}, static = true }}
    """
    earlier = '{"buyer": {"from": "customers", "on": "text", "fields": {"name": "string"}}}'
    view = view_of(table)
    assert dict(view.table)["join"] == earlier
    checkpoint.start(view)
    checkpoint.start(view)
    message = checkpoint.refused(view_of(table.replace(", static = true", "")))
    assert f"join is {earlier[:-2]}" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"revision": 2}, "has revision 1, and the view has revision 2"),
        ({"topic": "new"}, "belongs to the view topic word-count, and the view has new"),
        ({"source": "new"}, "belongs to the source texts, and the view has new"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(
    checkpoint: Checkpoint, change: dict[str, Any], message: str
) -> None:
    checkpoint.start(WORDS)
    found = checkpoint.refused(replace(WORDS, **change))
    assert message in found
    assert "Add a new version of the view" in found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"view": "word-count"', '"view": "lines"', "belongs to the view lines. "),
        ("RocksDBStateStore", "HDFSBackedStateStore", "has state in HDFSBackedStateStoreProvider"),
        ("{", "", "cannot be read: "),
        ('"format": 2', '"format": 3', "it has format 3, and this release reads up to 2"),
    ],
)
def test_a_changed_file_is_refused(
    checkpoint: Checkpoint, old: str, new: str, message: str
) -> None:
    checkpoint.start(WORDS)
    path = checkpoint.path(WORDS)
    path.write_text(path.read_text().replace(old, new, 1))
    path.with_name(f".{FILE}.crc").unlink(missing_ok=True)
    assert message in checkpoint.refused(WORDS)


def test_state_without_a_rule_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.start(WORDS)
    checkpoint.path(WORDS).unlink()
    message = checkpoint.refused(WORDS)
    assert f"has state but no {FILE}" in message
    assert "delete and recreate its view topic" in message


def test_a_checkpoint_without_state_takes_the_new_rule(checkpoint: Checkpoint) -> None:
    checkpoint.start(WORDS)
    # as if the job had ended before its first micro-batch
    (checkpoint.folder / "word-count" / "view" / "offsets" / "0").unlink()
    checkpoint.start(replace(WORDS, revision=2))
    checkpoint.refused(WORDS)


def test_another_number_of_shuffle_partitions_is_reported(checkpoint: Checkpoint) -> None:
    checkpoint.start(WORDS)
    path = checkpoint.path(WORDS)
    path.write_text(path.read_text().replace('"state_partitions": 1', '"state_partitions": 8'))
    path.with_name(f".{FILE}.crc").unlink(missing_ok=True)
    checkpoint.start(WORDS)
    [line] = checkpoint.logged
    assert line.startswith("word-count: its state keeps its 8 partitions")
    assert '"state_partitions": 8' in (checkpoint.content(WORDS) or "")


@pytest.mark.parametrize(
    ("left", "found"),
    [('{"a": 1}', {"a": 1}), ('{"a": ', None), ("", None), ("\0" * 8, None)],
    ids=["complete", "truncated", "empty", "zeros"],
)
def test_a_crash_while_a_file_is_written_leaves_the_old_or_the_new_content(
    session: SparkSession, tmp_path: Path, left: str, found: object
) -> None:
    files, path = CheckpointFiles(session), tmp_path / "topics.json"
    path.with_name("topics.json.new").write_text(left)
    assert files.read_json(str(path)) == found
    files.replace_json(str(path), {"b": 2})
    path.with_name("topics.json.new").write_text(left)
    assert files.read_json(str(path)) == {"b": 2}


def test_a_refused_view_does_not_stop_the_others(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    runner = Runner(session, broker.bootstrap_servers, make_topic, tmp_path)
    runner.write(b"one")
    runner.once()
    progress = runner.settings.progress
    assert progress is not None
    progress.unlink()
    other = replace(runner.view, name="other", topic=make_topic(cleanup_policy="compact"))
    edited = replace(runner.view, revision=2)
    runner.settings = replace(runner.settings, views=[edited, other])
    runner.write(b"two", b"\xff")
    with runner.stream():
        wait_until(progress.exists, 60, "the progress file", 0.02)
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 3}}, "other")
        # The refused view would have written the dead letters of both.
        runner.wait_progress(lambda p: p["dead_letters"] == 1, "other")
        refused = runner.progress()
        assert (refused["state"], refused["source_offsets"]) == ("failed", {})
        assert "and the view has revision 2" in refused["last_error"]
        assert (refused["restarts"], refused["is_final"]) == (0, True)
        assert not runner.progress("other")["is_final"]
    assert runner.counts() == {"one": 1}
    with pytest.raises(JobError, match="word-count is not started"):
        runner.once()
    runner.settings = replace(runner.settings, views=[edited])
    with pytest.raises(JobError, match="word-count is not started"), runner.stream() as thread:
        thread.join(60)
