"""A short version of `make pipelines`, and its check of topics with errors."""

from __future__ import annotations

import time
from pathlib import Path

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.waiting import wait_until
from spark.views import VIEWS
from tests.pipelines.batch import BATCH_SUFFIX
from tests.pipelines.checking import Check
from tests.pipelines.feeder import Feeder
from tests.pipelines.job import LOCAL, LOCAL_CLUSTER
from tests.pipelines.kills import Kind
from tests.pipelines.result import Result
from tests.pipelines.runner import Options, run_on
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer

PAUSE = 3.0  # s before a kill that does not wait for a phase


def test_views_are_those_of_a_batch_job_after_kills(tmp_path: Path) -> None:
    kinds = [Kind.JVM, Kind.DRIVER, Kind.WORKER]
    options = Options(["word-count", "visits"], 2, away=3, seed=17, kinds=kinds, pause=PAUSE)
    words, visits = checked(LOCAL, options, tmp_path)
    assert (words.late_rows, visits.late_rows > 0) == (0, True)


def test_a_view_on_a_cluster_survives_its_executors(tmp_path: Path) -> None:
    options = Options(["airports"], 1, away=0, seed=17, kinds=[Kind.EXECUTOR], pause=PAUSE)
    [airports] = checked(LOCAL_CLUSTER, options, tmp_path)
    assert airports.kinds == {"executor": 1}


def test_records_do_not_end_with_the_limit(broker: Broker, make_topic: MakeTopic) -> None:
    """Regression: without new records no view has micro-batches, and a long run was stuck."""
    make_topic(3, name="texts")
    feeder = Feeder(broker.bootstrap_servers, ["texts"], seed=1, rate=400, limit=100)
    with feeder:
        wait_until(lambda: feeder.sent >= 100, 10, "the limit")
        at_limit = feeder.sent
        wait_until(lambda: feeder.sent >= at_limit + 4, 20, "further records")
        assert at_limit <= 200
        feeder.paused.set()


def test_the_check_after_a_run_finds_what_is_wrong(tmp_path: Path) -> None:
    view = VIEWS["word-count"]
    one, two = ((b"the", number.to_bytes(8, "big")) for number in (1, 2))
    letter = (b"texts:1:0", b"\xff")
    with Broker(tmp_path / "broker") as broker:
        servers = broker.bootstrap_servers
        writer = Writer(servers)

        def result() -> Result:
            found = Result("word-count", LOCAL)
            Check(servers, [view], tmp_path).fill(found, view)
            return found

        topics = [("texts", 3), ("texts.dead-letter", 1), ("word-count", view.partitions)]
        both = [Topic(name + end, n) for name, n in topics for end in ("", BATCH_SUFFIX)]
        create_topics(quiet_admin(servers), both)
        writer.send("texts", [(None, b"The the")], partition=0)
        writer.send("texts", [(None, b"\xff")], partition=1)
        for end in ("", BATCH_SUFFIX):
            writer.send(f"word-count{end}", [one, two])
            writer.send(f"texts.dead-letter{end}", [letter])
        right = result()
        assert (right.ok, right.rows, right.records, right.malformed) == (True, 1, 2, 1), right

        writer.send("word-count", [one])
        writer.send("texts.dead-letter", [(b"texts:0:0", b"The the")])
        wrong = result()
        assert not wrong.equal
        batch, reference, back, *letters = wrong.errors
        assert batch.startswith("not the batch job's: 1 changed: b'the' is ")
        assert reference.startswith("not plain Python's: 1 changed: b'the' is ")
        assert back.startswith("1 values went back: b'the' at ")
        assert [text.endswith("such as texts:0:0") for text in letters] == [True, True]

        writer.send("word-count", [two])  # it hides the stale record from the comparison
        writer.send("word-count.batch", [(b"more", two[1])])
        wrong = result()
        assert "1 missing: b'more' of partition " in wrong.errors[0]
        assert wrong.errors[1].startswith("1 values went back: b'the' at ")


def checked(master: str, options: Options, folder: Path) -> list[Result]:
    began = time.monotonic()
    results: list[Result] = []

    def report(line: str) -> None:  # pytest shows it if the test fails, or takes too long
        print(f"{time.monotonic() - began:5.1f} s: {line}")

    for each in run_on(master, options, folder, report):
        assert each.ok, each
        assert each.kills >= options.kills
        assert each.rows > 5
        assert each.malformed > each.tombstones > 0
        results.append(each)
    return results
