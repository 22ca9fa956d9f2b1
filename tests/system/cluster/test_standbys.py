"""Standbys: which instance answers if the active does not, without an outage."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from local.waiting import stretch
from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

PARTITIONS = 6
TABLE = {f"key {n}": n for n in range(60)}
PATHS = {key_path("v", key): value for key, value in TABLE.items()}


def check_value(path: str, answer: Response) -> str:
    found = answer.status == 200 and answer.json()["value"] == PATHS[path]
    return "" if found else "a missing or wrong answer"


def roles(backend: Backend, role: str) -> dict[str, list[int]]:
    """Instance -> partitions of v in a role, in the backend's topology."""
    return {p["id"]: p[role]["v"] for p in backend.processors()["processors"]}


def test_actives_and_standbys_answer(deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    # b2 must be seen as dead before its session times out
    settings = {"standby_replicas": "1", "session_timeout_ms": "8000"}
    first, second = deploy(views_toml(v={"topic": topic}), **settings).start(2)
    both = (first, second)

    def is_shared() -> bool:
        """Also in the answers that readers see. Soon after the start the topology may change."""
        active = roles(first, "topicPartitions")
        if {id_: len(p) for id_, p in active.items()} != {"b1": 3, "b2": 3}:
            return False
        if roles(first, "standbyPartitions") != {"b1": active["b2"], "b2": active["b1"]}:
            return False
        running = {"b1": "running", "b2": "running"}
        if any(backend.states() != running for backend in both):
            return False
        return all(is_right(backend, path, active) for backend in both for path in PATHS)

    def is_right(backend: Backend, path: str, active: dict[str, list[int]]) -> bool:
        answer = backend.get(path)
        assert (answer.status, answer.json()["value"]) == (200, PATHS[path]), answer
        partition = int(answer.headers["Partition"])
        role = "active" if partition in active[backend.id] else "standby"
        # only the active, on any instance
        never = backend.get(path + "?stale=never")
        owner = next(id_ for id_, those in active.items() if partition in those)
        return (answer.headers["Served-By"], never.status, never.headers.get("Served-By")) == (
            f"{backend.id}; {role}", 200, f"{owner}; active",
        )  # fmt: skip

    first.wait(is_shared, "each to be active for three partitions")
    # the standby has not read more than the active: both are asked and cannot answer
    answer = first.get(next(iter(PATHS)) + "?min_offset=" + ",".join(f"{p}:999" for p in range(6)))
    assert (answer.status, answer.code) == (503, "not-up-to-offset")

    # one is killed: the other answers for all partitions at once, and soon reports it as dead
    with ReadLoop([first.port], list(PATHS), check_value, threads=1) as read_loop:
        second.kill()
        read_loop.all_again()
        first.wait(lambda: first.states().get("b2") == "dead", "the heartbeats to be missed", 5)
        never = [first.get(path + "?stale=never") for path in PATHS]
        assert {answer.status for answer in never} == {200, 503}
        settle([first])
        read_loop.all_again()
    assert roles(first, "topicPartitions") == {"b1": list(range(PARTITIONS))}

    # it returns as a standby, and takes over its share after it has caught up
    with ReadLoop([first.port], list(PATHS), check_value, threads=1) as read_loop:
        second.launch()
        settle([first, second])
        read_loop.all_again()
    assert {id_: len(p) for id_, p in roles(first, "topicPartitions").items()} == {"b1": 3, "b2": 3}
    assert "is rebuilt" not in second.log()


def test_a_hung_instance_is_skipped(deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> None:
    """An instance without the key's partition forwards to the active or, if that hangs, to the
    standby."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    deployment = deploy(
        views_toml(v={"topic": topic}), standby_replicas="1", session_timeout_ms="8000"
    )
    backends = deployment.start(3)
    first, second, _ = backends
    own_partitions = set(
        roles(first, "topicPartitions")["b1"] + roles(first, "standbyPartitions")["b1"]
    )
    with second.paused():
        began = time.monotonic()
        answers = [first.get(path) for path in PATHS]
        took = time.monotonic() - began
        assert {answer.status for answer in answers} == {200}
        assert not all(int(answer.headers["Partition"]) in own_partitions for answer in answers)
        assert not any(answer.headers["Served-By"].startswith("b2") for answer in answers)
        # there is one time-out, not one per request: then the instance is suspected, later dead
        assert took < 5 * stretch()
        page = first.get("/views/v/keys?limit=1000")
        assert [item["key"] for item in page.json()["items"]] == sorted(TABLE)


def test_a_read_that_waits_for_an_offset_does_not_send_others_to_the_standby(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(1)
    writer.table(topic, TABLE)
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1")
    settle(deployment.start(2))
    nginx = deployment.proxy(workers=1)
    path = next(iter(PATHS))
    with ThreadPoolExecutor(1) as pool, nginx.client() as waiting, nginx.client() as client:
        refused = pool.submit(waiting.get, path + "?min_offset=0:999")
        while not refused.done():
            assert client.get(path).headers["Served-By"].endswith("; active")
    assert (refused.result().status, refused.result().code) == (503, "not-up-to-offset")
    # the instance has asked both, so nginx has not
    (entry,) = nginx.access_log(1, "min_offset")
    assert (entry["attempts"], entry["upstream_status"]) == (1, "530")


WHOLE = (
    "/views/v/keys?limit=1000",
    "/views/v/count?exact=true",
    "/views/v/count?exact=false",
    "/views/v/top?by=n&limit=1000",
    "/views/versions/keys/key%200/versions?limit=10",  # all partitions: the key may be in any
    "/views/versions/keys/key%200?as_of=4102444800000",
)


def whole_view_results(backend: Backend, stale: str) -> dict[str, tuple[int, str]]:
    """Status and code of each query of a whole view, and of a batch's items."""
    found = {}
    with Client(backend.port) as client:
        for path in WHOLE:
            answer = client.get(f"{path}&{stale}")
            found[path] = (answer.status, "" if answer.status == 200 else answer.code)
        lines = client.get(f"/views/v/keys?{stale}", accept="application/x-ndjson")
        found["a stream"] = (lines.status, "" if lines.status == 200 else lines.code)
        body = json.dumps({"keys": list(TABLE)}).encode()
        answer = client.request("POST", f"/views/v/batch?{stale}", body)
    assert answer.status == 200
    for item in answer.json()["items"]:
        found[f"a batch: {item['key']}"] = (item["status"], item.get("code", ""))
    return found


def key_not_at(instance: Backend, active: str, view: str) -> str:
    """A key whose partition `instance` does not have and another instance is active for; any key if
    there is none."""
    by_role = {
        p["id"]: {
            role: set(p[role].get(view, [])) for role in ("topicPartitions", "standbyPartitions")
        }
        for p in instance.processors()["processors"]
    }
    here = set.union(*by_role[instance.id].values())
    wanted = by_role[active]["topicPartitions"] - here
    home = partition_of("murmur2")
    keys = (key for key in TABLE if home(key.encode(), PARTITIONS) in wanted)
    return next(keys, next(iter(TABLE)))


def asks_the_active(instance: Backend, path: str) -> bool:
    """Whether `instance` reads this key itself or from its active. For a while after the active did
    not answer, it asks a standby."""
    served_by = instance.get(path).headers["Served-By"]
    return served_by.startswith(f"{instance.id};") or served_by.endswith("; active")


def get(target: str, accept: str = "*/*") -> tuple[str, str, bytes | None, str]:
    return "GET", target, None, accept


def post(target: str, body: object) -> tuple[str, str, bytes | None, str]:
    return "POST", target, json.dumps(body).encode(), "*/*"


# kind of query -> requests, given a key of each view
QUERIES: dict[str, Callable[[dict[str, str]], tuple[str, str, bytes | None, str]]] = {
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


def test_every_query_skips_a_hung_instance_at_once(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """While a standby can answer, an instance waits for the active only briefly."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, {key: {"n": n} for key, n in TABLE.items()})
    versions = {"topic": topic, "store": "versioned"}
    backends = deploy(
        views_toml(v={"topic": topic}, versions=versions),
        standby_replicas="1",
        session_timeout_ms="45000",  # the topology does not change
        heartbeat_interval="30",  # no instance is reported as dead
        forward_timeout="60",
    ).start(3)
    first, second, _ = backends
    settle(backends)
    for what in QUERIES:
        # b1 answers from its own partitions; the topology may have changed
        keys = {view: key_not_at(first, "b2", view) for view in ("v", "versions")}
        method, target, body, accept = QUERIES[what](keys)
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


def test_scans_and_batches_read_only_actives_if_stale_is_never(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, {key: {"n": n} for key, n in TABLE.items()})
    versions = {"topic": topic, "store": "versioned", "partitioner": "none"}
    deployment = deploy(
        views_toml(v={"topic": topic}, versions=versions),
        standby_replicas="1",
        session_timeout_ms="45000",  # the topology does not change
        forward_timeout="1",
        wait_timeout="0.05",  # for partitions that no instance answers for
    )
    first, second = deployment.start(2)
    for stale in ("", "stale=never"):
        assert set(whole_view_results(first, stale).values()) == {(200, "")}
    home = partition_of("murmur2")
    partitions_of_b2 = set(roles(first, "topicPartitions")["b2"])
    with second.paused():
        assert set(whole_view_results(first, "").values()) == {(200, "")}, "its standby answers"
        for question, found in whole_view_results(first, "stale=never").items():
            key = question.removeprefix("a batch: ")
            if key in TABLE and home(key.encode(), PARTITIONS) not in partitions_of_b2:
                assert found == (200, "")
            else:
                assert found == (503, "owner-unreachable"), question
        assert roles(first, "topicPartitions")["b2"], "b2 is still active"
    first.wait(lambda: first.states()["b2"] == "running", "heartbeats")
    # an instance that was paused for long may join its group again, and roles change then

    def all_answer() -> bool:
        return set(whole_view_results(first, "stale=never").values()) == {(200, "")}

    first.wait(all_answer, "answers of the actives")


def test_a_stopping_instance_is_replaced_before_it_exits(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    backends = deploy(views_toml(v={"topic": topic}), standby_replicas="1").start(3)
    first, second, third = backends
    ports = [first.port, third.port]
    with ReadLoop(ports, list(PATHS), check_value, threads=2) as read_loop:
        second.terminate()
        first.wait(lambda: first.states().get("b2") == "draining", "it to be draining", 5)
        answer = second.get(next(iter(PATHS)))
        assert answer.status == 200, "it still answers instances with the old topology"
        assert second.wait_end() == 0
        settle([first, third])
        read_loop.all_again()
        second.launch()
        settle(backends)
        read_loop.all_again()
    found = roles(first, "standbyPartitions")
    assert sorted(p for those in found.values() for p in those) == list(range(PARTITIONS))


def test_a_snapshot_that_nobody_reads_is_aborted(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(1)
    # more than the kernel buffers on both sides, and more than is sent before the receiver hangs
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
    assert "a copy of" not in first.log(), "the snapshot was not sent completely"
    assert second.get("/views/v/count?exact=true").json()["count"] == len(table)


def test_a_new_instance_starts_from_a_snapshot(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(2)
    table = {f"key {n}": n for n in range(2_000)}
    writer.table(topic, table)
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1", copy_threshold="100")
    [first] = deployment.start(1)
    assert "no snapshot" not in first.log(), "there was no source"
    # later records are read from the log
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
    assert all(p["started"] > 500 for p in second.partitions("v")), "read from the beginning"
    for key, value in (table | later).items():
        if hash(key) % 10 == 0:
            answer = second.get(key_path("v", key))
            assert (answer.status, answer.json()["value"]) == (200, value)
            assert answer.headers["Served-By"].startswith("b2")
    assert second.get("/views/v/count?exact=true").json()["count"] == len(table | later)
    # the folders contain only store partitions
    for backend in (first, second):
        assert sorted(path.name for path in (backend.data_dir / "v").iterdir()) == ["0", "1"]


def test_the_other_rack_answers_after_a_rack_fails(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, TABLE)
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1")
    # with an even distribution, some partitions would be only in the west
    racks = {"b1": "east", "b2": "west", "b3": "west"}
    backends = [deployment.new(rack=rack).launch() for rack in racks.values()]
    settle(backends)
    first, west = backends[0], backends[1:]
    active, standby = (roles(first, f"{role}Partitions") for role in ("topic", "standby"))
    assert active["b2"] or active["b3"], "there is nothing to take over"
    where = [
        sorted(racks[id_] for held in (active, standby) for id_ in racks if partition in held[id_])
        for partition in range(PARTITIONS)
    ]
    assert where == [["east", "west"]] * PARTITIONS

    with ReadLoop([first.port], list(PATHS), check_value, threads=2) as read_loop:
        read_loop.all_again()
        for backend in west:
            backend.kill()
        read_loop.all_again()
        settle([first])
        read_loop.all_again()
    assert roles(first, "topicPartitions") == {"b1": list(range(PARTITIONS))}
    assert "is rebuilt" not in first.log()
