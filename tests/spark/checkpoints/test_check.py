"""A view continues only a checkpoint of its own rule and state version."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from local.kafka.broker import Broker
from local.waiting import wait_until
from spark.checkpoints.check import FILE, CheckpointRefused, check_view, identity_of
from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.plans import literals
from spark.errors import JobError
from spark.raw_topics.texts import TEXTS
from spark.settings import Settings
from spark.sources import Kafka
from spark.view import Source, View
from spark.views import VIEWS
from spark.views.word_count import word_count
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.runner import Runner

WORDS = VIEWS["word-count"]


def upper(texts: DataFrame) -> DataFrame:
    """Word counts by another rule."""
    return word_count(texts.select(F.upper("text").alias("text")))


def same(texts: DataFrame) -> DataFrame:
    """Word counts, written in another way."""
    rows = [texts]
    return word_count(*rows)


def long_words(least: int) -> Callable[[DataFrame], DataFrame]:
    """A rule whose Python function uses a constant."""

    def chosen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts = [text for text in batch.column("text").to_pylist() if len(text) >= least]
            yield pa.RecordBatch.from_pydict({"text": texts})

    return lambda texts: word_count(texts.mapInArrow(chosen, "text string"))


class Checkpoint:
    """A checkpoint of a view, with state as soon as the view was started."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session = session
        self.folder = folder
        self.logged: list[str] = []

    def start(self, view: View, **settings: Any) -> None:
        chosen = Settings([view], Kafka(""), checkpoint_dir=str(self.folder), **settings)
        check_view(self.session, view, chosen, self.logged.append)
        offsets = self.folder / view.name / "view" / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets / "0").touch()

    def refused(self, view: View, **settings: Any) -> str:
        before = self.content(view)
        with pytest.raises(CheckpointRefused) as raised:
            self.start(view, **settings)
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
    assert (found["state_version"], found["state_store"]) == (1, "RocksDBStateStoreProvider")


def test_an_edited_rule_is_refused_with_what_to_do(checkpoint: Checkpoint) -> None:
    checkpoint.start(WORDS)
    edited = replace(WORDS, derive=upper)
    message = checkpoint.refused(edited)
    assert message.startswith("word-count is not started: the view's rule is not that of the ")
    assert "upper(text" in message
    assert '[views."word-count@2"]' in message
    assert len(message) < 1200
    # The operator knows that both rules give the same results.
    rule = identity_of(checkpoint.session, edited).rule.digest
    assert f"--same-rule word-count={rule}." in message
    checkpoint.refused(edited, same_rules={"word-count": "0123456789ab"})
    checkpoint.start(edited, same_rules={"word-count": rule})
    checkpoint.start(edited)
    # An old option does not allow the next edit.
    checkpoint.refused(WORDS, same_rules={"word-count": rule})


def test_a_rule_that_was_only_rewritten_continues(checkpoint: Checkpoint) -> None:
    checkpoint.start(WORDS)
    checkpoint.start(replace(WORDS, derive=same))


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("#100", "#200"),
        ("@1a2b", "@cafe"),
        ("0d9a3e6f-7a53-4a0c-9d4b-4c6a0f8b2f11", "1d9a3e6f-7a53-4a0c-9d4b-4c6a0f8b2f12"),
    ],
)
def test_an_edited_text_that_looks_like_an_id_is_refused(
    checkpoint: Checkpoint, text: str, edited: str
) -> None:
    """Spark's plans have such ids, which differ between two starts."""

    def without(text: str) -> View:
        def others(texts: DataFrame) -> DataFrame:
            return word_count(texts.where(F.col("text") != text))

        return replace(WORDS, derive=others)

    checkpoint.start(without(text))
    checkpoint.start(without(text))
    message = checkpoint.refused(without(edited))
    assert f"its plan has the text `{edited}` instead of `{text}`" in message
    # as an earlier release has written it
    path = checkpoint.path(WORDS)
    found = json.loads(path.read_text())
    del found["more_of_rule"]
    path.write_text(json.dumps(found))
    path.with_name(f".{FILE}.crc").unlink(missing_ok=True)
    checkpoint.start(without(text))
    checkpoint.refused(without(edited))


def test_texts_are_found_in_each_part_of_a_plan(session: SparkSession) -> None:
    known = session.createDataFrame([("#1",)], "known string")
    known = known.where("known != '#2'")
    suffixed = F.udf(lambda text: f"{text}#3")(F.lit("#4"))
    within = F.transform(F.array(F.lit("#5")), lambda each: F.concat(each, F.lit("@c"), F.lit("x")))
    rows = session.range(1).select(suffixed, within, F.lit(b"#6"), F.lit(None), F.lit(7))
    found = rows.join(known, F.exists(F.array("known"), lambda each: each == "#8"))
    assert sorted(literals(found)) == ["#2", "#4", "#5", "#8", "@c"]


def test_an_edited_constant_of_a_python_function_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.start(replace(WORDS, derive=long_words(3)))
    checkpoint.start(replace(WORDS, derive=long_words(3)))
    message = checkpoint.refused(replace(WORDS, derive=long_words(4)))
    assert "a Python function that it runs, or a constant of that, was edited" in message


def test_an_edited_set_of_a_class_is_refused(checkpoint: Checkpoint) -> None:
    def without(words: set[str]) -> View:
        class Stop:
            WORDS = words

        def chosen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                texts = [
                    text for text in batch.column("text").to_pylist() if text not in Stop.WORDS
                ]
                yield pa.RecordBatch.from_pydict({"text": texts})

        def derive(texts: DataFrame) -> DataFrame:
            return word_count(texts.mapInArrow(chosen, "text string"))

        return replace(WORDS, derive=derive)

    checkpoint.start(without({"a", "the"}))
    checkpoint.start(without({"the", "a"}))
    assert "a constant of that, was edited" in checkpoint.refused(without({"a", "this"}))


def test_an_edited_row_of_a_table_in_the_rule_is_refused(checkpoint: Checkpoint) -> None:
    """The plan has only the columns of such a table."""

    def created(weight: int) -> View:
        def derive(texts: DataFrame) -> DataFrame:
            session = texts.sparkSession
            known = session.createDataFrame([("a", weight), ("b", 2)], "text string, weight int")
            return word_count(texts.join(known, "text").where("weight > 1"))

        return replace(WORDS, name="created", derive=derive)

    def written_out(weight: int) -> View:
        def derive(texts: DataFrame) -> DataFrame:
            known = texts.sparkSession.sql(f"VALUES ('a', {weight}), ('b', 2)")
            return word_count(texts.join(known.toDF("text", "weight"), "text").where("weight > 1"))

        return replace(WORDS, name="written-out", derive=derive)

    for view in (created, written_out):
        checkpoint.start(view(1))
        checkpoint.start(view(1))
        message = checkpoint.refused(view(3))
        assert "its plan does not show the rows that it creates" in message
        edited = view(3)
        rule = identity_of(checkpoint.session, edited).rule.digest
        checkpoint.start(edited, same_rules={edited.name: rule})
        checkpoint.refused(view(4), same_rules={edited.name: rule})


def test_an_edited_table_function_is_refused(checkpoint: Checkpoint) -> None:
    def first_words(count: int) -> View:
        def derive(texts: DataFrame) -> DataFrame:
            class Words:
                def eval(self, text: str) -> Iterator[tuple[str]]:
                    for word in text.split()[:count]:
                        yield (word,)

            words: Any = F.udtf(Words, returnType="word string")  # type: ignore[call-overload]
            texts.sparkSession.udtf.register("first_words", words)
            texts.createOrReplaceTempView("texts_of_test")
            found = "SELECT word AS text FROM texts_of_test, LATERAL first_words(text)"
            return word_count(texts.sparkSession.sql(found))

        return replace(WORDS, derive=derive)

    checkpoint.start(first_words(3))
    checkpoint.start(first_words(3))
    assert "a constant of that, was edited" in checkpoint.refused(first_words(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state_version": 2}, "has state version 1, and the view has state version 2"),
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


def test_another_way_to_read_or_write_is_refused(checkpoint: Checkpoint) -> None:
    def joined(texts: DataFrame, known: DataFrame) -> DataFrame:
        return word_count(texts.join(known.select("text"), "text"))

    def reading(*, static: bool, output_mode: str = "update") -> View:
        sources = (Source("texts", TEXTS), Source("known", TEXTS, static=static))
        return View(name="known", sources=sources, derive=joined, output_mode=output_mode)

    checkpoint.start(reading(static=True))
    checkpoint.start(reading(static=True))
    assert "its plan has" in checkpoint.refused(reading(static=False))
    append = checkpoint.refused(reading(static=True, output_mode="append"))
    assert "its plan has `Output append` instead of `Output update`" in append


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"view": "word-count"', '"view": "lines"', "belongs to the view lines. "),
        ("RocksDBStateStore", "HDFSBackedStateStore", "has state in HDFSBackedStateStoreProvider"),
        ("{", "", "cannot be read: "),
        ('"format": 1', '"format": 2', "it has format 2, and this release reads 1"),
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
    checkpoint.start(replace(WORDS, derive=upper))
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
    edited = replace(runner.view, derive=upper)
    runner.settings = replace(runner.settings, views=[edited, other])
    runner.write(b"two", b"\xff")
    with runner.stream():
        wait_until(progress.exists, 60, "the progress file", 0.02)
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 3}}, "other")
        # The refused view would have written the dead letters of both.
        runner.wait_progress(lambda p: p["dead_letters"] == 1, "other")
        refused = runner.progress()
        assert (refused["state"], refused["source_offsets"]) == ("failed", {})
        assert "the view's rule is not that of the checkpoint" in refused["last_error"]
        assert (refused["restarts"], refused["is_final"]) == (0, True)
        assert not runner.progress("other")["is_final"]
    assert runner.counts() == {"one": 1}
    with pytest.raises(JobError, match="word-count is not started"):
        runner.once()
    runner.settings = replace(runner.settings, views=[edited])
    with pytest.raises(JobError, match="word-count is not started"), runner.stream() as thread:
        thread.join(60)
