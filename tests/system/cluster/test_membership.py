"""Instances join and leave: the topology follows, and every partition is answered again."""

from __future__ import annotations

import time
from typing import Any

from local.kafka.broker import Broker
from local.waiting import stretch, wait_until
from tests.support.backends import Backend
from tests.support.client import Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

PARTITIONS = 6
TABLE = {f"key {n}": n for n in range(60)}
PATHS = {key_path("v", key): value for key, value in TABLE.items()}


def check_value(path: str, answer: Response) -> str:
    if answer.status == 503:
        return ""
    return "" if answer.status == 200 and answer.json()["value"] == PATHS[path] else "wrong"


def epoch(backend: Backend) -> tuple[int, int]:
    ms, generation = backend.processors()["epoch"].split("-")
    return int(ms), int(generation)


def assigned(backend: Backend) -> dict[str, list[int]]:
    """Instance -> partitions of v, in the backend's topology."""
    document = backend.processors()
    return {p["id"]: p["topicPartitions"]["v"] for p in document["processors"]}


def assert_all_answered(backends: list[Backend]) -> None:
    owners = {
        partition: owner
        for owner, partitions in assigned(backends[0]).items()
        for partition in partitions
    }
    assert sorted(owners) == list(range(PARTITIONS))
    for backend in backends:
        for path, value in PATHS.items():
            answer = backend.get(path)
            assert answer.status == 200, answer
            assert answer.json()["value"] == value
            owner = owners[int(answer.headers["Partition"])]
            assert answer.headers["Served-By"] == f"{owner}; active"


def test_the_topology_follows_instances_that_join_stop_and_die(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    deployment = deploy(views_toml(v={"topic": topic}))
    first, second = deployment.start(2)
    assert {id_: len(p) for id_, p in assigned(first).items()} == {"b1": 3, "b2": 3}
    assert_all_answered([first, second])

    # a third instance gets its share; the others keep the rest of their partitions
    before, seen = assigned(first), epoch(first)
    with ReadLoop([first.port, second.port], list(PATHS), check_value, threads=1):
        third = deployment.new().launch()
        settle([first, second, third])
    after = assigned(first)
    assert {id_: len(p) for id_, p in after.items()} == {"b1": 2, "b2": 2, "b3": 2}
    assert all(set(after[id_]) < set(before[id_]) for id_ in before)
    assert epoch(first) > seen
    assert_all_answered([first, second, third])

    # 304 by ETag until the topology changes
    answer = second.get("/processors")
    assert answer.json()["max_key_bytes"] == 8192
    tag = answer.headers["ETag"]
    assert answer.headers["Topology-Epoch"] == answer.json()["epoch"]
    unchanged = second.get("/processors", If_None_Match=tag)
    assert (unchanged.status, unchanged.body) == (304, b"")
    assert unchanged.headers["ETag"] == tag

    # an instance stops: it leaves the group, so it is removed before its session times out
    seen = epoch(first)
    began = time.monotonic()
    with ReadLoop([first.port, second.port], list(PATHS), check_value, threads=1):
        assert third.stop() == 0
        settle([first, second])
    assert "b3" not in assigned(first)
    assert time.monotonic() - began < 10 * stretch()
    assert epoch(first) > seen
    assert second.get("/processors", If_None_Match=tag).status == 200
    assert_all_answered([first, second])

    # an instance dies: after its session time-out the other has all partitions
    seen = epoch(first)
    second.kill()
    settle([first])
    assert epoch(first) > seen
    assert list(assigned(first)) == ["b1"]
    assert_all_answered([first])

    # it returns with its old data
    second.start()
    settle([first, second])
    assert "is rebuilt" not in second.log()
    assert_all_answered([first, second])


def test_a_draining_instance_reports_its_state(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    # it continues to answer for a while, because another instance can take over
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1", drain_time="1")
    backend, _ = deployment.start(2)
    states: list[str] = []

    def judge(_: str, answer: Response) -> str:
        if answer.status == 200:
            processors = answer.json()["processors"]
            states.extend(each["state"] for each in processors if each["id"] == backend.id)
        return ""

    with ReadLoop([backend.port], ["/processors"], judge, threads=2) as read_loop:
        backend.wait(lambda: read_loop.seen("200") > 5, "maps")
        backend.terminate()
        began = time.monotonic()
        assert backend.wait_end() == 0
        took = time.monotonic() - began
    assert states[0] == "running"
    assert set(states) <= {"running", "draining"}
    assert "draining" in states
    # although its clients never stop sending
    assert took < 8


def test_a_returning_partition_is_not_answered_from_its_old_end_offset(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(1)
    writer.table(topic, dict.fromkeys(TABLE, "old"))
    # it is within the acceptable recovery lag, which applies to restarts
    deployment = deploy(views_toml(v={"topic": topic}), wait_timeout="0")
    [first] = deployment.start(1)
    second = deployment.new().start()
    settle([first, second])
    with first.paused():
        # its session times out, and the other has all partitions
        second.wait(
            lambda: assigned(second) == {"b2": [0]}, "a topology without the paused instance"
        )
        second.wait_ready(1)
    first.wait(
        lambda: assigned(first) == {"b1": [], "b2": [0]}, "a topology in which it has no partitions"
    )
    new = TABLE | {f"later {n}": n for n in range(3_000)}
    writer.table(topic, new)
    second.wait_positions("v", {0: 2 * len(TABLE) + 3_000})

    def judge(path: str, answer: Response) -> str:
        if answer.status == 503:
            return ""
        return "" if answer.status == 200 and answer.json()["value"] != "old" else "outdated"

    paths = [key_path("v", key) for key in list(new)[-200:]] + list(PATHS)
    with ReadLoop([first.port], paths, judge, threads=2) as read_loop:
        second.stop()
        settle([first])
        rounds = read_loop.rounds()
        first.wait(lambda: read_loop.check() or read_loop.rounds() > rounds, "everything once")


def test_of_two_instances_with_the_same_id_the_second_ends(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    deployment = deploy(views_toml(v={"topic": topic}))
    first, other = deployment.start(2)
    twin = deployment.new("twin", instance_id="b1").launch()
    with ReadLoop([first.port, other.port], list(PATHS), check_value, threads=1) as read_loop:
        wait_until(lambda: not twin.is_running, 40, "the end of the second")
        read_loop.check()
    # a status with which systemd does not start it again
    assert twin.stop() == 2
    for part in (
        f"instance b1 (127.0.0.1:{twin.port}) gets no partitions",
        f"another instance with this id is in the group, at 127.0.0.1:{first.port}",
        "QUERYABLE_INSTANCE_ID",
    ):
        assert part in twin.log()
    leader = next(b for b in (first, other) if "has the id b1" in b.log())
    assert f"the instance at 127.0.0.1:{twin.port} has the id b1" in leader.log()
    settle([first, other])
    assert_all_answered([first, other])


def test_an_instance_that_moves_after_a_crash_keeps_its_id(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """The group still has the dead one for its session time-out."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    deployment = deploy(views_toml(v={"topic": topic}))
    first, other = deployment.start(2)
    first.kill()
    moved = deployment.new("moved", instance_id="b1").launch()
    for backend in (other, moved):
        backend.wait_ready(2)
    assert_all_answered([other, moved])
    # and one that has crashed is back at once, at the same address
    moved.kill()
    moved.launch()
    for backend in (other, moved):
        backend.wait_ready(2)
    assert "with this id" not in moved.log()


def test_partitions_are_assigned_only_to_instances_that_have_the_view(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    common, extra = make_topic(4), make_topic(3)
    writer.table(common, TABLE)
    writer.table(extra, TABLE)
    old_file = views_toml(v={"topic": common})
    new_file = views_toml(v={"topic": common}, extra={"topic": extra})
    deployment = deploy(old_file)
    newer = deployment.folder / "newer.toml"
    newer.write_text(new_file)
    old, new = deployment.new(), deployment.new(views=str(newer))
    old.launch()
    new.launch()
    settle([old, new])

    def assignment(backend: Backend) -> dict[str, dict[str, Any]]:
        return {p["id"]: p["topicPartitions"] for p in backend.processors()["processors"]}

    # at first the leader may not know the extra topic, and does not assign it
    old.wait(lambda: assignment(old)["b2"]["extra"] == [0, 1, 2], "the extra view to be assigned")
    settle([old, new])
    assert len(assignment(old)["b1"]["v"]) == 2
    assert assignment(old)["b1"]["extra"] == []
    for key, value in TABLE.items():
        for backend in (old, new):
            assert backend.get(key_path("v", key)).json()["value"] == value
            # the old one does not declare it, and forwards the read
            assert backend.get(key_path("extra", key)).json()["value"] == value

    # an instance with another definition of the common view gets none of it, and logs an error
    newer.write_text(views_toml(v={"topic": common, "value": "string"}, extra={"topic": extra}))
    assert new.stop() == 0
    settle([old])
    new.launch()
    settle([old, new])
    assert assignment(old)["b2"]["v"] == []
    for key, value in TABLE.items():
        for backend in (old, new):
            assert backend.get(key_path("v", key)).json()["value"] == value
    logs = old.log() + new.log()
    assert "view v has 2 definitions in this group" in logs
