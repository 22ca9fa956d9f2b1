"""Standbys: who answers when the active does not, and that nobody falls silent meanwhile."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

pytestmark = pytest.mark.system

PARTITIONS = 6
TABLE = {f"key {n}": n for n in range(60)}
PATHS = {key_path("v", key): value for key, value in TABLE.items()}


def right(path: str, answer: Response) -> str:
    found = answer.status == 200 and answer.json()["value"] == PATHS[path]
    return "" if found else "no or a wrong answer"


def roles(backend: Backend, role: str) -> dict[str, list[int]]:
    """Instance -> partitions of v in a role, as the backend's map says."""
    return {p["id"]: p[role]["v"] for p in backend.processors()["processors"]}


def states(backend: Backend) -> dict[str, Any]:
    return {p["id"]: p["state"] for p in backend.processors()["processors"]}


def test_whoever_holds_a_partition_answers(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    first, second = deploy(views_toml(v={"topic": topic}), standby_replicas="1").start(2)
    both = (first, second)

    def is_shared() -> bool:
        """Also what readers see; soon after the start another map may come."""
        active = roles(first, "topicPartitions")
        if {id_: len(p) for id_, p in active.items()} != {"b1": 3, "b2": 3}:
            return False
        if roles(first, "standbyPartitions") != {"b1": active["b2"], "b2": active["b1"]}:
            return False
        running = {"b1": "running", "b2": "running"}
        if any(states(backend) != running for backend in both):
            return False
        return all(is_right(backend, path, active) for backend in both for path in PATHS)

    def is_right(backend: Backend, path: str, active: dict[str, list[int]]) -> bool:
        answer = backend.get(path)
        assert (answer.status, answer.json()["value"]) == (200, PATHS[path]), answer
        partition = int(answer.headers["Partition"])
        role = "active" if partition in active[backend.id] else "standby"
        # the active alone, wherever that is
        never = backend.get(path + "?stale=never")
        owner = next(id_ for id_, those in active.items() if partition in those)
        return (answer.headers["Served-By"], never.status, never.headers.get("Served-By")) == (
            f"{backend.id}; {role}", 200, f"{owner}; active",
        )  # fmt: skip

    first.wait(is_shared, "each to be active for three partitions, and to say so")
    # what the active has not read yet, the standby has not either: both are asked, in vain
    answer = first.get(next(iter(PATHS)) + "?min_offset=" + ",".join(f"{p}:999" for p in range(6)))
    assert (answer.status, answer.code) == (503, "not-up-to-offset")

    # one is killed: the other answers for all at once, and says soon that it is dead
    with ReadLoop([first.port], list(PATHS), right, threads=1) as asking:
        second.kill()
        asking.all_again()
        first.wait(lambda: states(first).get("b2") == "dead", "the heartbeats to be missed", 5)
        never = [first.get(path + "?stale=never") for path in PATHS]
        assert {answer.status for answer in never} == {200, 503}
        settle([first])
        asking.all_again()
    assert roles(first, "topicPartitions") == {"b1": list(range(PARTITIONS))}

    # it comes back, stands by, and takes its share over once it has caught up
    with ReadLoop([first.port], list(PATHS), right, threads=1) as asking:
        second.launch()
        settle([first, second])
        asking.all_again()
    assert {id_: len(p) for id_, p in roles(first, "topicPartitions").items()} == {"b1": 3, "b2": 3}
    assert "is rebuilt" not in second.log()


def test_a_hung_instance_is_passed_over(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """One that holds nothing of a key forwards: to the active, and past it when that hangs."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    deployment = deploy(
        views_toml(v={"topic": topic}), standby_replicas="1", session_timeout_ms="8000"
    )
    backends = deployment.start(3)
    first, second, _ = backends
    mine = set(roles(first, "topicPartitions")["b1"] + roles(first, "standbyPartitions")["b1"])
    with second.paused():
        began = time.monotonic()
        answers = [first.get(path) for path in PATHS]
        took = time.monotonic() - began
        assert {answer.status for answer in answers} == {200}
        assert not all(int(answer.headers["Partition"]) in mine for answer in answers)
        assert not any(answer.headers["Served-By"].startswith("b2") for answer in answers)
        # one time-out, then it is suspected, and later dead: not one a request
        assert took < 5
        page = first.get("/views/v/keys?limit=1000")
        assert [item["key"] for item in page.json()["items"]] == sorted(TABLE)


WHOLE = (
    "/views/v/keys?limit=1000",
    "/views/v/count?exact=true",
    "/views/v/count?exact=false",
    "/views/v/top?by=n&limit=1000",
    "/views/versions/keys/key%200/versions?limit=10",  # of all partitions: it may be in any
    "/views/versions/keys/key%200?as_of=4102444800000",
)


def whole(backend: Backend, stale: str) -> dict[str, tuple[int, str]]:
    """Status and code of each question about a whole view; and those of a batch's items."""
    found = {}
    with Client(backend.port) as client:
        for path in WHOLE:
            answer = client.get(f"{path}&{stale}")
            found[path] = (answer.status, "" if answer.status == 200 else answer.code)
        lines = client.get(f"/views/v/keys?{stale}", accept="application/x-ndjson")
        found["a stream"] = (lines.status, "" if lines.status == 200 else lines.code)
        asked = json.dumps({"keys": list(TABLE)}).encode()
        answer = client.request("POST", f"/views/v/batch?{stale}", asked)
    assert answer.status == 200
    for item in answer.json()["items"]:
        found[f"a batch: {item['key']}"] = (item["status"], item.get("code", ""))
    return found


def key_not_at(asked: Backend, active: str, view: str) -> str:
    """A key of whose partition `asked` holds nothing and another one is active; any, if there is
    none."""
    by_role = {
        p["id"]: {
            role: set(p[role].get(view, [])) for role in ("topicPartitions", "standbyPartitions")
        }
        for p in asked.processors()["processors"]
    }
    here = set.union(*by_role[asked.id].values())
    wanted = by_role[active]["topicPartitions"] - here
    home = partition_of("murmur2")
    keys = (key for key in TABLE if home(key.encode(), PARTITIONS) in wanted)
    return next(keys, next(iter(TABLE)))


def asks_the_active(asked: Backend, path: str) -> bool:
    """Whether `asked` reads this key itself, or from its active. It asks a standby for a while
    after the active did not answer."""
    served_by = asked.get(path).headers["Served-By"]
    return served_by.startswith(f"{asked.id};") or served_by.endswith("; active")


def get(target: str, accept: str = "*/*") -> tuple[str, str, bytes | None, str]:
    return "GET", target, None, accept


def post(target: str, body: object) -> tuple[str, str, bytes | None, str]:
    return "POST", target, json.dumps(body).encode(), "*/*"


# by kind: what is asked, where these are the keys of the views
ASKED_OF_A_HUNG_ONE: dict[str, Callable[[dict[str, str]], tuple[str, str, bytes | None, str]]] = {
    "point": lambda keys: get(key_path("v", keys["v"])),
    "search": lambda keys: post("/views/v/search", {"query": keys["v"]}),
    "history": lambda keys: get(f"{key_path('versions', keys['versions'])}/versions"),
    "batch": lambda _: post("/views/v/batch", {"keys": list(TABLE)}),
    "page": lambda _: get("/views/v/keys?limit=1000"),
    "stream": lambda _: get("/views/v/keys", "application/x-ndjson"),
    "estimate": lambda _: get("/views/v/count"),
    "count": lambda _: get("/views/v/count?exact=true"),
    "top": lambda _: get("/views/v/top?by=n&limit=1000"),
}


def test_whatever_is_asked_a_hung_instance_is_passed_over_at_once(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """While its standby is left, nobody waits for it as long as for the last one that there is."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, {key: {"n": n} for key, n in TABLE.items()})
    versions = {"topic": topic, "store": "versioned"}
    backends = deploy(
        views_toml(v={"topic": topic}, versions=versions),
        standby_replicas="1",
        session_timeout_ms="45000",  # the map stays as it is
        heartbeat_interval="30",  # nobody is known to be dead
        forward_timeout="60",
    ).start(3)
    first, second, _ = backends
    settle(backends)
    for what in ASKED_OF_A_HUNG_ONE:
        # b1 would answer itself of what it holds; the map may be another one by now
        keys = {view: key_not_at(first, "b2", view) for view in ("v", "versions")}
        method, target, body, accept = ASKED_OF_A_HUNG_ONE[what](keys)
        paths = [key_path(view, key) for view, key in keys.items()]
        first.wait(lambda p=paths: all(asks_the_active(first, path) for path in p), "b2 is asked")
        with second.paused(), Client(first.port) as client:
            began = time.monotonic()
            answer = client.request(method, target, body, accept=accept)
            took = time.monotonic() - began
        assert answer.status == 200, (what, answer)
        if what == "batch":
            assert {item["status"] for item in answer.json()["items"]} == {200}
        assert "b2" not in answer.headers["Served-By"]
        assert took < 20, f"{what}: {took:.1f} s"


def test_the_active_alone_of_whole_views_and_of_batches(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, {key: {"n": n} for key, n in TABLE.items()})
    versions = {"topic": topic, "store": "versioned", "partitioner": "none"}
    deployment = deploy(
        views_toml(v={"topic": topic}, versions=versions),
        standby_replicas="1",
        session_timeout_ms="45000",  # the map stays as it is
        forward_timeout="1",
        wait_timeout="0.05",  # of what nobody answers
    )
    first, second = deployment.start(2)
    for stale in ("", "stale=never"):
        assert set(whole(first, stale).values()) == {(200, "")}
    home = partition_of("murmur2")
    theirs = set(roles(first, "topicPartitions")["b2"])
    with second.paused():
        assert set(whole(first, "").values()) == {(200, "")}, "its standby answers"
        for question, found in whole(first, "stale=never").items():
            key = question.removeprefix("a batch: ")
            if key in TABLE and home(key.encode(), PARTITIONS) not in theirs:
                assert found == (200, "")
            else:
                assert found == (503, "owner-unreachable"), question
        assert roles(first, "topicPartitions")["b2"], "b2 is still active"
    first.wait(lambda: states(first)["b2"] == "running", "heartbeats")
    assert set(whole(first, "stale=never").values()) == {(200, "")}


def test_an_instance_that_stops_is_replaced_before_it_is_gone(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    backends = deploy(views_toml(v={"topic": topic}), standby_replicas="1").start(3)
    first, second, third = backends
    ports = [first.port, third.port]
    with ReadLoop(ports, list(PATHS), right, threads=2) as asking:
        second.terminate()
        first.wait(lambda: states(first).get("b2") == "draining", "it to say so", 5)
        answer = second.get(next(iter(PATHS)))
        assert answer.status == 200, "it answers on, for those who have not heard"
        assert second.wait_end() == 0
        settle([first, third])
        asking.all_again()
        second.launch()
        settle(backends)
        asking.all_again()
    found = roles(first, "standbyPartitions")
    assert sorted(p for those in found.values() for p in those) == list(range(PARTITIONS))


def test_a_copy_that_nobody_takes_is_given_up(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(1)
    # more than the kernel takes on both sides, and than is sent before the receiver hangs
    table = {f"key {n}": random.Random(n).randbytes(350_000).hex() for n in range(40)}
    writer.table(topic, table)
    deployment = deploy(
        views_toml(v={"topic": topic}),
        standby_replicas="1",
        copy_threshold="10",
        copy_bandwidth="4e6",
        send_timeout="1",
        session_timeout_ms="45000",
    )
    [first] = deployment.start(1)
    second = deployment.new().launch()
    folder = first.data_dir / "v"
    first.wait(lambda: len(list(folder.iterdir())) > 1, "a checkpoint")
    with second.paused():
        first.wait_log("a client has read nothing")
        first.wait(lambda: len(list(folder.iterdir())) == 1, "the checkpoint to be deleted")
    settle([first, second])
    assert "a copy of" not in first.log(), "that one was not sent to its end"
    assert second.get("/views/v/count?exact=true").json()["count"] == len(table)


def test_a_new_instance_begins_with_a_copy(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(2)
    table = {f"key {n}": n for n in range(2_000)}
    writer.table(topic, table)
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1", copy_threshold="100")
    [first] = deployment.start(1)
    assert "no snapshot" not in first.log(), "there was nobody to ask"
    # what comes after the copy is read from the log
    second = deployment.new().launch()
    later = {f"later {n}": n for n in range(500)}
    writer.table(topic, later)
    settle([first, second])
    copied = [
        line
        for line in second.log().splitlines()
        if "received a snapshot" in line and "from b1" in line
    ]
    assert len(copied) == 2, second.log()
    ends = {p["partition"]: p["position"] for p in first.partitions("v")}
    second.wait_positions("v", ends)
    assert all(p["started"] > 500 for p in second.partitions("v")), "not from the beginning"
    for key, value in (table | later).items():
        if hash(key) % 10 == 0:
            answer = second.get(key_path("v", key))
            assert (answer.status, answer.json()["value"]) == (200, value)
            assert answer.headers["Served-By"].startswith("b2")
    assert second.get("/views/v/count?exact=true").json()["count"] == len(table | later)
    # nothing but store partitions is left in the folders
    for backend in (first, second):
        assert sorted(path.name for path in (backend.data_dir / "v").iterdir()) == ["0", "1"]


def test_a_rack_that_fails_leaves_the_other_to_answer(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1")
    # shared evenly, some partitions would be in the west alone
    racks = {"b1": "east", "b2": "west", "b3": "west"}
    backends = [deployment.new(rack=rack).launch() for rack in racks.values()]
    settle(backends)
    first, west = backends[0], backends[1:]
    active, standby = (roles(first, f"{role}Partitions") for role in ("topic", "standby"))
    assert active["b2"] or active["b3"], "something is to be taken over"
    where = [
        sorted(racks[id_] for held in (active, standby) for id_ in racks if partition in held[id_])
        for partition in range(PARTITIONS)
    ]
    assert where == [["east", "west"]] * PARTITIONS

    with ReadLoop([first.port], list(PATHS), right, threads=2) as asking:
        asking.all_again()
        for backend in west:
            backend.kill()
        asking.all_again()
        settle([first])
        asking.all_again()
    assert roles(first, "topicPartitions") == {"b1": list(range(PARTITIONS))}
    assert "is rebuilt" not in first.log()
