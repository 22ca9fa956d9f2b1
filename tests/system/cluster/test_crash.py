"""kill -9 during ingest: the data on disk is always exactly the log up to the position."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from local.kafka.broker import Broker
from tests.support.backends import Backend
from tests.support.client import Response, key_path
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.stored import stored
from tests.support.topics import Writer, ends_of, fold, history

PARTITIONS = 4
BACKLOG = 240_000
LIVE = 40_000
SEED = 20130101


def some_records(count: int, seed: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Records with few keys, so that most are written often; a tenth are deletes."""
    chance = random.Random(seed)
    for n in range(count):
        key = b"key %d" % chance.randrange(5_000)
        value = None if chance.random() < 0.1 else b'{"n": %d, "by": %d}' % (n, seed)
        yield key, value


def position_of(backend: Backend) -> int:
    """The number of records applied in all partitions; 0 while the backend does not answer."""
    answer = backend.try_get("/instance")
    if answer is None:
        return 0
    return sum(p.get("position", 0) for p in answer.json()["partitions"])


def values_in(entries: Mapping[bytes, Any]) -> dict[bytes, Any]:
    """Without the tombstones that a store keeps while it catches up: their offset is negative."""
    return {key: entry for key, entry in entries.items() if entry[1] >= 0}


def test_repeated_kills_lose_and_duplicate_nothing(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.send(topic, some_records(BACKLOG, 1))
    backend = deploy(views_toml(v={"topic": topic})).new()
    chance = random.Random(SEED)
    # the last kill is while records are written, too
    points = [1 + chance.randrange(10_000), chance.randrange(BACKLOG // 2, BACKLOG)]
    points.append(BACKLOG + chance.randrange(LIVE))
    late = Writer(broker.bootstrap_servers)
    live = threading.Thread(target=late.send, args=(topic, some_records(LIVE, 2)))
    kept: list[dict[int, int]] = []
    for number, point in enumerate(points):
        backend.launch()
        backend.wait(lambda point=point: position_of(backend) >= point, f"position {point}")
        if number == 1:
            live.start()
        backend.kill()
        log = history(broker.bootstrap_servers, topic, PARTITIONS)
        positions = {}
        for partition in range(PARTITIONS):
            on_disk = stored(backend.data_dir, "v", partition)
            positions[partition] = on_disk.position
            assert values_in(on_disk.entries) == fold(log[partition], on_disk.position)
        if kept:
            assert all(positions[p] >= kept[-1][p] for p in positions), "a position moved back"
        kept.append(positions)
    live.join(60)
    assert sum(kept[0].values()) < BACKLOG, "not during ingest"

    backend.launch()
    log = history(broker.bootstrap_servers, topic, PARTITIONS)
    ends = ends_of(log)
    assert sum(ends.values()) == BACKLOG + LIVE
    backend.wait_positions("v", ends)
    backend.wait_ready()
    assert "is rebuilt" not in backend.log()
    assert backend.stop() == 0
    for partition in range(PARTITIONS):
        on_disk = stored(backend.data_dir, "v", partition)
        assert on_disk.position == ends[partition]
        assert values_in(on_disk.entries) == fold(log[partition], ends[partition])
        assert on_disk.metadata.answerable


def test_a_killed_worker_is_replaced_and_resumes_at_its_position(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(2)
    writer.table(topic, {f"k{n}": n for n in range(1_000)})
    [backend] = deploy(views_toml(v={"topic": topic})).start()
    [worker] = backend.workers()
    backend.kill_worker(worker)
    writer.table(topic, {f"k{n}": -n for n in range(1_000)})
    backend.wait(lambda: backend.workers() not in ([], [worker]), "another worker")
    backend.wait_ready()
    backend.wait_positions("v", ends_of(history(broker.bootstrap_servers, topic, 2)))
    for n in range(0, 1_000, 50):
        assert backend.get(key_path("v", f"k{n}")).json()["value"] == -n
    assert "is rebuilt" not in backend.log()


def test_the_worker_of_a_killed_arbiter_exits(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """The orphaned worker exits and releases the port and the data folder."""
    topic = make_topic(1)
    writer.table(topic, {"k": 1})
    [backend] = deploy(views_toml(v={"topic": topic})).start()
    backend.kill_arbiter()
    backend.wait_gone()
    backend.start()
    assert backend.get(key_path("v", "k")).json()["value"] == 1


@pytest.mark.parametrize("within", [True, False], ids=["within", "beyond"])
def test_a_restart_answers_at_once_within_the_acceptable_recovery_lag(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, within: bool
) -> None:
    topic = make_topic(1)
    keys = [f"k{n}" for n in range(50)]
    writer.table(topic, dict.fromkeys(keys, "old"))
    deployment = deploy(views_toml(v={"topic": topic}), wait_timeout="0")
    [backend] = deployment.start()
    end = backend.partitions("v")[0]["position"]
    backend.kill()
    padding = "x" * 3_000
    missed = ((f"k{n % 50}".encode(), json.dumps([padding, n]).encode()) for n in range(9_000))
    writer.send(topic, missed)
    half_read_in: list[int] = []

    def judge(path: str, answer: Response) -> str:
        if answer.status == 503:
            # at its old position, it still compares its last record with the log
            if answer.code == "catching-up" and answer.json().get("position", end) > end:
                half_read_in.append(answer.json()["position"])
            return ""
        if answer.status != 200:
            return "a false miss"
        if not within and int(answer.headers["Offset"]) != end + 9_000:
            return "not at the end of the log"
        return ""

    paths = [key_path("v", key) for key in keys]
    with ReadLoop([backend.port], paths, judge, threads=1) as read_loop:
        backend.launch(acceptable_recovery_lag="10000" if within else "8999")
        backend.wait(lambda: read_loop.check() or read_loop.seen("200") > 50, "answers")
    assert bool(half_read_in) is not within, read_loop.outcomes
    backend.wait_positions("v", {0: end + 9_000})
    assert backend.get(key_path("v", "k49")).json()["value"] == [padding, 8_999]
