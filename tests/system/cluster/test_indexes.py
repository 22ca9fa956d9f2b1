"""Indexes after kill -9: during the first load, during writes, and while an index is built; and in
copies of stores."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from rocksdict import AccessType, Options, Rdict

from local.kafka.broker import Broker
from model.records import INDEXES_KEY
from tests.support.backends import Backend
from tests.support.client import Response
from tests.support.deployment import settle
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer
from tests.system.indexed_views import (
    AFTER,
    BEFORE,
    MOVING,
    PARTITIONS,
    Checker,
    plan_of,
    some_records,
    views,
    where,
)

BACKLOG = 100_000  # more than a bulk load needs, in each partition
SEED = 20130101


def position_of(backend: Backend) -> int:
    answer = backend.try_get("/instance")
    if answer is None:
        return 0
    return sum(p.get("position", 0) for p in answer.json()["partitions"])


def unfinished(backend: Backend) -> int:
    """The number of store partitions whose build is neither at its begin nor complete."""
    count = 0
    for partition in range(PARTITIONS):
        path = str(backend.data_dir / "v" / str(partition))
        store = Rdict(path, Options(raw_mode=True), access_type=AccessType.read_only())
        try:
            document = json.loads(store[INDEXES_KEY])
        finally:
            store.close()
        states = [index["ready"] for index in document["indexes"].values()]
        count += not all(states) and document["reached"] is not None
    return count


def all_moving(path: str, answer: Response) -> str:
    """The moving keys always meet the condition, so none of them may be missing."""
    if answer.status != 200:
        return ""
    keys = {item["key"] for item in answer.json()["items"]}
    return "" if keys == set(MOVING) else f"{len(keys)} of {len(MOVING)} keys"


@contextmanager
def writing(servers: str, topic: str, seed: int) -> Iterator[None]:
    """Some thousand records a second are written during the block."""
    writer = Writer(servers)
    stop = threading.Event()

    def write() -> None:
        records = some_records(1_000_000, seed)
        while not stop.wait(0.03):
            writer.send(topic, islice(records, 300))

    thread = threading.Thread(target=write, name="writing", daemon=True)
    thread.start()
    try:
        yield
        assert thread.is_alive()
    finally:
        stop.set()
        thread.join(60)


def test_an_index_gives_the_rows_of_the_topic_after_kills(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    chance = random.Random(SEED)
    checker = Checker(broker.bootstrap_servers, topic, chance)
    writer.send(topic, some_records(BACKLOG, 1))
    deployment = deploy(views(topic, BEFORE))
    backend = deployment.new()

    for _ in range(2):  # during the first load
        backend.launch()
        point = position_of(backend) + chance.randrange(5_000, BACKLOG // 3)
        backend.wait(lambda point=point: position_of(backend) >= point, f"position {point}")
        assert position_of(backend) < BACKLOG, "not during the load"
        checker.kill(backend)
    backend.launch()
    checker.check(backend)

    path = where("dest in ('HERE', 'THERE')", more="&limit=1000")
    with writing(broker.bootstrap_servers, topic, 2):
        for _ in range(2):
            backend.wait_ready()
            with ReadLoop([backend.port], [path], all_moving, threads=1) as reads:
                point = position_of(backend) + chance.randrange(3_000, 8_000)
                backend.wait(lambda point=point: position_of(backend) >= point, f"{point}")
                backend.wait(lambda: reads.check() or reads.seen("200") > 100, "reads")
            checker.kill(backend)
            backend.launch()
    checker.check(backend)

    for indexes, condition in ((AFTER, "price = 7"), (BEFORE, "dest = 'D7'")):
        assert backend.stop() == 0
        deployment.views_path.write_text(views(topic, indexes))
        with writing(broker.bootstrap_servers, topic, 3 + len(indexes)):
            for _ in range(2):
                backend.launch()
                backend.wait(lambda c=condition: plan_of(backend, c), "an answer")
                checker.kill(backend)
                checker.unfinished_builds += unfinished(backend)
            backend.launch()
            backend.wait(lambda c=condition: plan_of(backend, c).startswith("index"), "the index")
        checker.check(backend)

    assert checker.kills == 8
    assert checker.unfinished_builds > 0, checker
    assert checker.by_index > checker.answers // 2, checker


def test_copies_answer_with_all_index_keys(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    """A new instance copies stores, also while an index is built in them, and answers alone."""
    topic = make_topic(PARTITIONS)
    checker = Checker(broker.bootstrap_servers, topic, random.Random(SEED))
    writer.send(topic, some_records(BACKLOG // 2, 1))
    deployment = deploy(views(topic, BEFORE), standby_replicas="1", copy_threshold="1000")
    first, second = deployment.new().start(), deployment.new()
    for indexes, condition in ((BEFORE, "dest = 'D7'"), (AFTER, "price = 7")):
        with writing(broker.bootstrap_servers, topic, len(indexes)):
            if indexes == AFTER:
                assert first.stop() == 0
                deployment.views_path.write_text(views(topic, indexes))
                first.launch().wait_listening()
            settle([first, second.launch()])
            assert "bytes from b1" in second.log()
        for backend in (first, second):
            backend.wait(lambda b=backend, c=condition: plan_of(b, c).startswith("index"), "index")
        for backend in (first, second):
            checker.check(backend)
        checker.kill(first)
        settle([second])
        assert plan_of(second, condition).startswith("index")
        checker.check(second)
        second.kill()
        shutil.rmtree(second.data_dir)
        first.start()
    assert checker.by_index > checker.answers // 2, checker
