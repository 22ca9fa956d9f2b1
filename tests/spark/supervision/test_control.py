"""Commands for views: pause, resume, restart, rebuild. Sent as instances send them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from local.kafka.broker import Broker
from local.waiting import wait_until
from model.pipelines.commands import PAUSE, REBUILD, RESTART, RESUME
from spark.errors import JobError
from spark.supervision import tombstones
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.controlled import ControlledRunner, of_known_texts, of_table
from tests.support.topics import set_config


def test_a_group_with_members_affects_only_its_view(
    runner: ControlledRunner, broker: Broker, make_topic: MakeTopic
) -> None:
    """Regression: the job followed no commands while a commit of one view was refused."""
    other = replace(runner.view, name="other", topic=make_topic(cleanup_policy="compact"))
    runner.settings = replace(runner.settings, views=[other, runner.view])
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"{runner.settings.group_prefix}other",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([runner.source])
    wait_until(lambda: consumer.poll(0.1) is None and consumer.assignment(), 60, "a member")
    runner.write(b"one")
    with runner.stream():
        runner.wait_counts(one=1)
        runner.send(PAUSE)
        runner.wait_state("paused")
    consumer.close()


def test_a_view_is_paused_until_it_is_resumed_also_after_a_restart_of_the_job(
    runner: ControlledRunner,
) -> None:
    runner.write(b"one")
    with runner.stream():
        runner.wait_counts(one=1)
        runner.send(PAUSE)
        assert runner.session.streams.active == []
        runner.write(b"one")
        runner.wait_state("paused")
        assert runner.progress()["state"] == "paused"
    runner.wait_state("stopped")
    with runner.stream():
        runner.wait_state("paused")
        assert runner.session.streams.active == []
        assert runner.counts() == {"one": 1}
        runner.send(RESUME)
        runner.wait_counts(one=2)
        runner.send(RESTART)
        runner.wait_state("running", never="stopped")
        runner.write(b"one", b"\xff")
        runner.wait_counts(one=3)
        runner.wait_progress(lambda p: p["dead_letters"] == 1)
        runner.wait_state("running")
        wait_until(runner.reports(input_rows=3, state_rows=1), 60, "the stats in a heartbeat")
    assert runner.progress()["restarts"] == 0, "only restarts after failures count"


def test_a_rebuilt_view_has_what_its_source_has_now(
    runner: ControlledRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    runner.write(b"one two", b"one")
    with runner.stream():
        runner.wait_counts(one=2, two=1)
        runner.truncate(1)
        runner.send(REBUILD)
        # 0: a tombstone; the word is in no record any more
        runner.wait_counts(one=1, two=0)
        runner.wait_rebuilt()
        runner.write(b"two")
        runner.wait_counts(one=1, two=1)
    said = (
        f"warning: rebuilding word-count: topic {runner.source} no longer has its first records "
        "(1 in partition 0), so results that only they have are lost"
    )
    assert capsys.readouterr().err.splitlines().count(said) == 1


def test_a_rebuilt_view_has_what_its_static_source_has_now(
    runner: ControlledRunner, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another view runs, so the job goes on when the view has failed."""
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0.2)
    known, other = make_topic(), replace(runner.view, name="other", topic=make_topic())
    runner.view = of_known_texts(runner.view, known)
    runner.settings = replace(runner.settings, views=[runner.view, other])
    runner.write(b"one", b"two")
    runner.write_to(known, b"one")
    with runner.stream():
        runner.wait_counts(one=1)
        runner.write_to(known, b"two")
        runner.wait_state("failed")
        runner.send(REBUILD)
        runner.wait_counts(one=1, two=1)
        runner.wait_rebuilt()
        runner.wait_state("running")


def test_a_rebuild_after_partitions_were_added_keeps_keys_that_have_moved(
    runner: ControlledRunner,
) -> None:
    words = {f"word{number}": 1 for number in range(8)}
    runner.write(b"gone", " ".join(words).encode())
    with runner.stream():
        runner.wait_counts(gone=1, **words)
    runner.add_partition(runner.target)
    # as in a new process: Spark keeps the producer, which does not know the new partition yet
    kafka = replace(runner.settings.kafka, options={"client.id": "restarted"})
    runner.settings = replace(runner.settings, kafka=kafka)
    runner.truncate(1)
    with runner.stream():
        runner.send(REBUILD)
        runner.wait_rebuilt()
    _, added = runner.logs(2)
    assert added.records, "some keys have moved"
    assert runner.counts(partitions=2) == {"gone": 0, **words}


def test_a_rebuilt_view_has_other_folders_than_before(runner: ControlledRunner) -> None:
    """Spark uploads the last state of a query up to a minute after it was stopped."""
    checkpoint = Path(runner.settings.checkpoint(runner.view))

    def in_use() -> set[str]:
        return {each.parent.name for each in checkpoint.glob("view*/offsets")}

    runner.write(b"one", b"one")
    with runner.stream():
        runner.wait_counts(one=2)
        ids = (checkpoint / "topics.json").read_text()
        runner.truncate(1)
        for name in ("view-1", "view-2"):
            runner.send(REBUILD)
            runner.wait_rebuilt()
            assert name in in_use()
        assert (checkpoint / "topics.json").read_text() == ids
        late = checkpoint / "view" / "state" / "0" / "0" / "1.zip"
        late.parent.mkdir(parents=True, exist_ok=True)
        late.touch()
    runner.write(b"one")
    with runner.stream():
        runner.wait_counts(one=2)
        assert in_use() == {"view-2"}
        assert not late.exists()


def test_a_view_that_is_refused_can_be_restarted_and_rebuilt(
    runner: ControlledRunner, make_topic: MakeTopic
) -> None:
    """Another view runs meanwhile, and writes the dead letters."""
    checkpoint = Path(runner.settings.checkpoint(runner.view))
    (checkpoint / "view" / "offsets").mkdir(parents=True)
    (checkpoint / "view" / "offsets" / "0").touch()
    other = replace(runner.view, name="other", topic=make_topic(cleanup_policy="compact"))
    runner.settings = replace(runner.settings, views=[runner.view, other])
    runner.write(b"one", b"\xff")
    with runner.stream():
        runner.wait_state("failed")
        for _ in range(2):
            runner.send(RESTART)
            runner.wait_state("failed")
        assert runner.counts() == {}
        runner.send(REBUILD)
        runner.wait_counts(one=1)
        runner.wait_state("running")
        runner.wait_progress(lambda p: p["dead_letters"] == 1, "other")


def test_a_view_of_a_table_that_may_have_missed_tombstones_is_not_resumed(
    runner: ControlledRunner, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tombstones, "_TOLERATED_S", 0.0)

    def keep_tombstones(milliseconds: int) -> None:
        set_config(servers, runner.source, "delete.retention.ms", str(milliseconds))

    servers = broker.bootstrap_servers
    runner.view = of_table(runner.view)
    runner.settings = replace(runner.settings, views=[runner.view])
    set_config(servers, runner.source, "cleanup.policy", "compact")
    runner.write(b'{"n": 1}')

    def resume_late() -> None:
        with runner.stream() as thread:
            runner.wait_progress(lambda p: bool(p["source_offsets"]))
            runner.send(PAUSE)
            keep_tombstones(0)
            runner.send(RESUME)
            # no other view runs, so the job ends
            thread.join(20)

    with pytest.raises(JobError, match="keeps tombstones for 0 s"):
        resume_late()
    keep_tombstones(86_400_000)
    runner.write(b'{"n": 2}')
    with runner.stream():
        runner.wait_progress(lambda p: p["source_offsets"] == {runner.source: {"0": 2}})


def test_a_rebuild_that_was_interrupted_deletes_old_keys_after_a_restart(
    runner: ControlledRunner,
) -> None:
    runner.write(b"one two", b"one")
    with runner.stream():
        runner.wait_counts(one=2, two=1)
        runner.send(PAUSE)
    checkpoint = Path(runner.settings.checkpoint(runner.view))
    # as a rebuild leaves it that ended before its first micro-batch
    for file in sorted(checkpoint.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (checkpoint / "rebuild.json").write_text('{"ends": {"0": 100}}')
    runner.truncate(1)
    with runner.stream():
        runner.send(RESUME)
        runner.wait_counts(one=0, two=0)
        runner.wait_rebuilt()
