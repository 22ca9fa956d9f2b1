"""From the launch on, every answer is correct or 503: a 404 always means that there is no value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from local.kafka.broker import Broker
from local.waiting import wait_until
from model.partitioner import partition_of
from tests.support.client import Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import Judge, ReadLoop
from tests.support.topics import Log, Writer, ends_of, history, table_of

PARTITIONS = 3
KEYS = 500
VERSIONS = 200


def judge_of(view: str, table: Mapping[str, Any], ends: Mapping[int, int]) -> Judge:
    """Accepts only the last values and true misses, both at the end of the log."""
    expected = {key_path(view, key): value for key, value in table.items()}
    murmur2 = partition_of("murmur2")
    assert murmur2 is not None

    def judge(path: str, answer: Response) -> str:
        if answer.status == 503:
            return ""
        if answer.status not in (200, 404):
            return "neither value, miss nor 503"
        if (path in expected) != (answer.status == 200):
            return "a false miss" if path in expected else "a false hit"
        if answer.status == 200 and answer.json()["value"] != expected[path]:
            return f"not {expected[path]}"
        if int(answer.headers["Offset"]) != ends[int(answer.headers["Partition"])]:
            return f"answered before the end, {ends}"
        return ""

    return judge


def test_no_false_404_from_the_launch_on(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    keys = [f"key {n}" for n in range(KEYS)]
    for version in range(VERSIONS):
        writer.table(topic, {key: f"{key} v{version}" for key in keys})
    table = {key: f"{key} v{VERSIONS - 1}" for key in keys}
    log = history(broker.bootstrap_servers, topic, PARTITIONS)
    assert table_of(log) == table
    deployment = deploy(views_toml(v={"topic": topic}), wait_timeout="0")
    first, second = deployment.new(), deployment.new()
    missing = [f"missing {n}" for n in range(100)]
    paths = [key_path("v", key) for pair in zip(keys, missing * 5, strict=True) for key in pair]

    with ReadLoop(
        [first.port, second.port], paths, judge_of("v", table, ends_of(log))
    ) as read_loop:
        first.launch()
        first.wait(lambda: read_loop.seen("503 catching-up"), "an answer while it catches up")
        second.launch()
        settle([first, second])
        rounds = read_loop.rounds()
        first.wait(lambda: read_loop.check() or read_loop.rounds() > rounds, "everything once")
        # the second one stops; the first reads its partitions again
        second.stop()
        settle([first])
    # how many reads fall into this time depends on the load of the machine; one was waited for
    assert read_loop.seen("503 catching-up") > 0
    assert read_loop.seen("200") >= 3 * KEYS
    assert read_loop.seen("404") > 0


def test_partitions_that_end_with_transaction_markers_become_answerable(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(
        PARTITIONS,
        cleanup_policy="compact",
        segment_ms=100,
        min_cleanable_dirty_ratio=0.001,
        delete_retention_ms=0,
    )
    alive = {f"alive {n}": n for n in range(300)}
    dead: dict[str, Any] = {f"dead {n}": n for n in range(300)}
    writer.table(topic, alive)
    writer.table(topic, dead)
    writer.table(topic, dict.fromkeys(dead))
    transactional = Writer(broker.bootstrap_servers, **{"transactional.id": topic})
    transactional.init_transactions()
    transactional.transaction(True, topic, {"committed 1": 1, "committed 2": 2, "committed 3": 3})
    never = {f"never {n}": n for n in range(30)}

    def compacted() -> list[Log] | None:
        # an aborted transaction rolls the segment and leaves markers after the compacted records
        transactional.transaction(False, topic, never)
        log = history(broker.bootstrap_servers, topic, PARTITIONS)
        gone = all(p.end - p.last_record > 60 for p in log)
        return log if gone and not any(key in dead for key in table_of(log)) else None

    wait_until(compacted, 60, "the log cleaner")
    log = history(broker.bootstrap_servers, topic, PARTITIONS)
    table = table_of(log)
    assert table == {**alive, "committed 1": 1, "committed 2": 2, "committed 3": 3}
    assert all(p.end > p.last_record + 1 for p in log), "the log does not end with a marker"

    deployment = deploy(views_toml(v={"topic": topic}), wait_timeout="0")
    backend = deployment.new()
    paths = [key_path("v", key) for key in [*table, *dead, *never]]
    with ReadLoop(
        [backend.port], paths, judge_of("v", table, ends_of(log)), threads=2
    ) as read_loop:
        backend.start()
        rounds = read_loop.rounds()
        backend.wait(lambda: read_loop.check() or read_loop.rounds() > rounds, "everything once")
    assert backend.get("/instance").json()["partitions"][0]["lag"] == 0
