"""Brokers whose disks are restored to an older state, next to instances with newer data."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from backend.ingest.appender import Appender, NotTaken
from backend.ingest.batch import DeadLetter
from backend.ingest.dead_letters import DeadLetters
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from tests.support.client import key_path
from tests.support.deployment import settle, views_toml
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.fakes import Rec
from tests.support.plugins.fixtures import Deploy
from tests.support.read_loop import ReadLoop, accepts_only
from tests.support.topics import Writer, ends_of, history
from tests.system.data_folders import cp, rebuilt

TOPIC, VIEW = "things", "things"
KEYS = [f"key {n}" for n in range(60)]
KEPT, LOST, LATER = KEYS[:20], KEYS[20:40], KEYS[40:]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as running:
        yield running


def test_records_that_the_brokers_have_lost_are_not_answered(
    own_broker: Broker, tmp_path: Path, deploy: Deploy
) -> None:
    """New records have got the offsets of the lost ones. The topic's id and its leader epochs are
    those from before, because the brokers were started as often. One instance is started
    afterwards, the other one was suspended meanwhile."""
    create_topics(quiet_admin(own_broker.bootstrap_servers), [Topic(TOPIC, 1)])
    Writer(own_broker.bootstrap_servers).table(TOPIC, dict.fromkeys(KEPT, "kept"))
    own_broker.stop()
    backup = tmp_path / "broker.backup"
    cp(own_broker.data_dir, backup)
    own_broker.start()
    Writer(own_broker.bootstrap_servers).table(TOPIC, dict.fromkeys(LOST, "lost"))

    views = views_toml(**{VIEW: {"topic": TOPIC}})
    deployment = deploy(views, own_broker, standby_replicas="1", drain_time="0", wait_timeout="0")
    stopped, suspended = deployment.start(2)
    for backend in (stopped, suspended):
        backend.wait_positions(VIEW, {0: len(KEPT) + len(LOST)})
        assert backend.get(key_path(VIEW, LOST[0])).json()["value"] == "lost"
    assert stopped.stop() == 0
    with suspended.paused():
        own_broker.stop()
        shutil.rmtree(own_broker.data_dir)
        cp(backup, own_broker.data_dir)
        own_broker.start()
        for values in ("first", "second"):
            Writer(own_broker.bootstrap_servers).table(TOPIC, dict.fromkeys(LATER, values))
        expected = {**dict.fromkeys(KEPT, "kept"), **dict.fromkeys(LATER, "second")}
        ends = ends_of(history(own_broker.bootstrap_servers, TOPIC, 1))
        assert ends[0] > len(KEPT) + len(LOST)

        wanted = {key_path(VIEW, key): expected.get(key, "key-not-found") for key in KEYS}
        with ReadLoop([stopped.port], list(wanted), accepts_only(wanted), threads=1) as read_loop:
            stopped.launch()
            stopped.wait_positions(VIEW, ends)
            read_loop.all_again()
    settle(deployment.all)
    for backend in (stopped, suspended):
        backend.wait(lambda b=backend: rebuilt(b), "the rebuild")
        assert f"another record at offset {len(KEPT) + len(LOST) - 1}" in rebuilt(backend)[0]
        backend.wait_positions(VIEW, ends)
        for key in KEYS:
            answer = backend.get(key_path(VIEW, key))
            found = answer.json()["value"] if answer.status == 200 else None
            assert found == expected.get(key), key


def test_producers_go_on_with_brokers_that_have_lost_their_records(
    own_broker: Broker, tmp_path: Path
) -> None:
    """The broker finds a gap in the sequence of an idempotent producer. It never takes another
    record then."""
    servers = own_broker.bootstrap_servers
    settings = {"bootstrap.servers": servers}
    create_topics(quiet_admin(servers), [Topic(TOPIC, 1)])
    appender, dead_letters = Appender(settings, 10), DeadLetters(settings, 10)
    appender.start()

    def append(seconds: float = 0) -> int | None:
        """The offset of a new record; tries again for some time."""
        answers: Queue[int | None] = Queue()
        end = time.monotonic() + seconds
        while True:
            try:
                appender.append(TOPIC, 0, b"k", b"v", lambda offset, _: answers.put(offset))
                offset = answers.get(timeout=15)
            except NotTaken:
                offset = None
            if offset is not None or time.monotonic() > end:
                return offset

    try:
        assert append() == 0
        dead_letters.send(ORDERS, 0, [DeadLetter(Rec(0, b"k", b"{"), "value")])
        own_broker.stop()
        backup = tmp_path / "broker.backup"
        cp(own_broker.data_dir, backup)
        own_broker.start()
        assert append(15) == 1
        dead_letters.send(ORDERS, 0, [DeadLetter(Rec(1, b"k", b"{"), "value")])
        own_broker.stop()
        shutil.rmtree(own_broker.data_dir)
        cp(backup, own_broker.data_dir)
        own_broker.start()
        assert append(15) == 1
        dead_letters.send(ORDERS, 0, [DeadLetter(Rec(2, b"k", b"{"), "value")])
        assert dead_letters.failed == 0
    finally:
        appender.stop()
        dead_letters.close()
    topic = f"{ORDERS.topic}.dead-letter"
    [log] = history(servers, topic, 1)
    assert [key for _, _, key, _ in log.records] == [b"orders:0:0", b"orders:0:2"]
