"""A topic is recreated, truncated or gets partitions: there is never a wrong answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.waiting import wait_until
from model.partitioner import partition_of
from queryable import Client as QueryableClient
from tests.support.backends import Backend
from tests.support.client import TIMEOUT, Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop, accepts_only
from tests.support.topics import Writer, ends_of, history

KEYS = [f"key {n}" for n in range(60)]
PARTITIONS = 2


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return quiet_admin(broker.bootstrap_servers)


def delete(admin: AdminClient, topic: str) -> None:
    """Returns when the broker has forgotten it."""
    [future] = admin.delete_topics([topic], operation_timeout=20).values()
    future.result(20)

    def gone() -> bool:
        try:
            return topic not in admin.list_topics(timeout=5).topics
        except KafkaException:
            return False

    wait_until(gone, 20, f"topic {topic} to be gone")


def values(backend: Backend, view: str = "v") -> dict[str, Any]:
    """The current answers for all keys: values, or status and code."""
    found = {}
    for key in KEYS:
        answer = backend.get(key_path(view, key))
        found[key] = answer.json()["value"] if answer.status == 200 else answer.code
    return found


def wait_values(backends: list[Backend], expected: dict[str, Any], view: str = "v") -> None:
    for backend in backends:
        backend.wait(lambda backend=backend: values(backend, view) == expected, "the values", 30)


# the new topic: how often the kept keys are written
ANEW = {"same": 3, "more": 9, "fewer": 1, "none": 0}
KEPT = KEYS[:20]


def recreate(
    topics: dict[str, str], admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> dict[str, dict[str, Any]]:
    """Deletes the topics, creates and fills them again; returns view -> the expected answers."""
    expected = {}
    for view, topic in topics.items():
        delete(admin, topic)
        make_topic(PARTITIONS, topic)
        for number in range(ANEW[view]):
            writer.table(topic, dict.fromkeys(KEPT, number))
        kept = dict.fromkeys(KEPT, ANEW[view] - 1) if ANEW[view] else {}
        expected[view] = dict.fromkeys(KEYS, "key-not-found") | kept
    return expected


def old_topics(make_topic: MakeTopic, writer: Writer) -> dict[str, str]:
    topics = {view: make_topic(PARTITIONS) for view in ANEW}
    for topic in topics.values():
        writer.table(topic, dict.fromkeys(KEYS, "old"))
    return topics


def test_topics_recreated_under_a_running_backend_are_read_again(
    deploy: Deploy, admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> None:
    topics = old_topics(make_topic, writer)
    views = views_toml(**{view: {"topic": topic} for view, topic in topics.items()})
    [backend] = deploy(views).start()
    for view in topics:
        assert values(backend, view) == dict.fromkeys(KEYS, "old")
    for view, expected in recreate(topics, admin, make_topic, writer).items():
        wait_values([backend], expected, view)
        for partition in range(PARTITIONS):
            backend.wait_log(f"view {view}, partition {partition} is rebuilt: ")


def test_topics_recreated_while_the_backend_was_down_are_read_again(
    deploy: Deploy, admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> None:
    topics = old_topics(make_topic, writer)
    views = views_toml(**{view: {"topic": topic} for view, topic in topics.items()})
    [backend] = deploy(views, wait_timeout="0").start()
    assert backend.stop() == 0
    expected = recreate(topics, admin, make_topic, writer)
    paths = {key_path(view, key): expected[view][key] for view in topics for key in KEYS}
    with ReadLoop([backend.port], list(paths), accepts_only(paths), threads=2) as read_loop:
        backend.start()
        rounds = read_loop.rounds()
        backend.wait(lambda: read_loop.check() or read_loop.rounds() > rounds, "everything once")
    for view, topic in topics.items():
        backend.wait_log(f"view {view}, partition 1 is rebuilt: topic {topic} was deleted")


def test_readiness_while_a_topic_does_not_exist(
    admin: AdminClient, deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """A new deployment is ready before its topics exist. One that had the topic, and has lost sight
    of it, is not."""
    topic = make_topic(PARTITIONS)
    deployment = deploy(views_toml(v={"topic": topic}, new={"topic": f"{topic}-new"}))
    [backend] = deployment.start()

    def without() -> dict[str, bool]:
        document = backend.get("/health/ready").json()
        return {each["view"]: each["had_partitions"] for each in document["without_partitions"]}

    assert (backend.get("/health/ready").status, without()) == (200, {"new": False})
    assert backend.stop() == 0
    delete(admin, topic)
    backend.launch().wait_listening()
    backend.wait(lambda: without() == {"new": False, "v": True}, "the topology")
    assert backend.get("/health/ready").status == 503
    assert backend.get(key_path("v", "a")).code == "topic-missing"
    create_topics(admin, [Topic(topic, PARTITIONS)])
    writer.table(topic, {"a": 1})
    backend.wait_ready(timeout=60)
    assert without() == {"new": False}


def test_a_recreated_topic_is_not_answered_from_old_data(
    deploy: Deploy, admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, dict.fromkeys(KEYS[:40], "old"))
    [backend] = deploy(views_toml(v={"topic": topic}), wait_timeout="0").start()
    delete(admin, topic)

    def is_gone() -> bool:
        """In both partitions: they are closed one after the other."""
        return {backend.get(key_path("v", key)).status for key in KEYS} == {503}

    backend.wait(is_gone, "the end of the topic")
    new = dict.fromkeys(KEYS[20:], "new")
    expected = {key_path("v", key): new.get(key, "key-not-found") for key in KEYS}
    with ReadLoop([backend.port], list(expected), accepts_only(expected), threads=2) as read_loop:
        # so that the new topic is complete before the backend can see it
        with backend.paused():
            make_topic(PARTITIONS, topic)
            writer.table(topic, new)
        rounds = read_loop.rounds()
        backend.wait(lambda: read_loop.check() or read_loop.rounds() > rounds, "everything once")


def test_only_a_log_that_starts_after_the_position_is_read_again(
    deploy: Deploy, broker: Broker, admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> None:
    """Retention may delete records that were read. It must not hide records that were not read."""

    def cut(topic: str) -> None:
        """Deletes all current records."""
        ends = ends_of(history(broker.bootstrap_servers, topic, PARTITIONS))
        doomed = [TopicPartition(topic, partition, end) for partition, end in ends.items()]
        for future in admin.delete_records(doomed).values():
            future.result(20)

    topics = {view: make_topic(PARTITIONS) for view in ("missed", "read")}
    for topic in topics.values():
        writer.table(topic, dict.fromkeys(KEYS, "old"))
    views = views_toml(**{view: {"topic": topic} for view, topic in topics.items()})
    [backend] = deploy(views).start()
    cut(topics["read"])
    assert backend.stop() == 0
    writer.table(topics["missed"], dict.fromkeys(KEYS, "missed"))
    cut(topics["missed"])
    for topic in topics.values():
        writer.table(topic, dict.fromkeys(KEYS[:20], "new"))
    backend.start()
    new = dict.fromkeys(KEYS[:20], "new")
    assert values(backend, "missed") == dict.fromkeys(KEYS, "key-not-found") | new
    wait_values([backend], dict.fromkeys(KEYS, "old") | new, "read")
    for partition in range(PARTITIONS):
        backend.wait_log(f"view missed, partition {partition} is rebuilt: the log starts at")
    assert "view read, partition" not in "".join(
        line for line in backend.log(whole=True).splitlines() if "is rebuilt" in line
    )


def mover(count: int, other: int) -> Callable[[str], bool]:
    """Whether a key belongs to another partition under the other count."""
    murmur2 = partition_of("murmur2")
    assert murmur2 is not None
    return lambda key: murmur2(key.encode(), count) != murmur2(key.encode(), other)


def test_keys_are_answered_while_partitions_are_added(
    deploy: Deploy, broker: Broker, admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> None:
    """Through nginx and from each instance: no wrong answer, no older one than before, no 503."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, dict.fromkeys(KEYS, 0))
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1")
    backends = deployment.start(2)
    nginx = deployment.proxy(backends[0])
    moves = mover(PARTITIONS, 4)
    moving = {key for key in KEYS if moves(key)}
    assert 20 < len(moving) < 40
    paths = {key_path("v", key): key for key in [*KEYS, "nobody 1", "nobody 2", "nobody 3"]}

    def judge(path: str, answer: Response) -> str:
        exists = paths[path] in KEYS
        if answer.status != (200 if exists else 404):
            return f"{answer.status} {answer.code}"
        return ""

    ports = [nginx.port, *(backend.port for backend in backends)]
    with ReadLoop(ports, list(paths), judge, threads=2) as read_loop:
        [future] = admin.create_partitions([NewPartitions(topic, 4)]).values()
        future.result(20)
        wait_until(lambda: len(admin.list_topics(topic, 5).topics[topic].partitions) == 4, 20, "")
        current = Writer(broker.bootstrap_servers)
        for number in range(1, 4):
            read_loop.check()
            current.table(topic, dict.fromkeys(KEYS, number))
            wait_values(backends, dict.fromkeys(KEYS, number))
            settle(backends)
    deleted = sorted(moving)[:5]
    current.table(topic, dict.fromkeys(deleted))
    expected: dict[str, Any] = dict.fromkeys(KEYS, 3) | dict.fromkeys(deleted, "key-not-found")
    wait_values(backends, expected)
    for backend in backends:
        assert backend.get("/views/v/count?exact=true").json()["count"] == len(KEYS) - 5
        assert {p["mis_partitioned"] for p in backend.partitions("v")} == {0}
    # a restart does not change this, nor does a store that is built again
    backends[0].kill()
    backends[0].start()
    settle(backends)
    wait_values(backends, expected)
    with QueryableClient(f"http://{backends[1].address}") as client:
        for partition in range(4):
            client.rebuild(backends[1].id, "v", partition)
    backends[1].wait(lambda: backends[1].instance()["rebuilds"] == 4, "the rebuilds")
    settle(backends)
    wait_values(backends, expected)


def test_partitions_are_added_while_all_instances_are_down(
    deploy: Deploy, admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> None:
    """The third instance has no store until then."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, dict.fromkeys(KEYS, "old"))
    backends = deploy(views_toml(v={"topic": topic}), standby_replicas="0").start(3)
    for backend in backends:
        backend.kill()
    [future] = admin.create_partitions([NewPartitions(topic, 4)]).values()
    future.result(20)
    for backend in backends:
        backend.launch()
    for backend in backends:
        backend.wait_listening()
    paths = {key_path("v", key): "old" for key in KEYS}
    ports = [backend.port for backend in backends]
    with ReadLoop(ports, list(paths), accepts_only(paths), threads=2) as read_loop:
        wait_values(backends, dict.fromkeys(KEYS, "old"))
        settle(backends)
        read_loop.check()
    wait_values(backends, dict.fromkeys(KEYS, "old"))
    for backend in backends:
        assert {p["mis_partitioned"] for p in backend.partitions("v")} <= {0}


@pytest.mark.parametrize("is_running", [True, False])
def test_a_topic_that_is_recreated_with_more_partitions_has_no_moved_keys(
    deploy: Deploy,
    broker: Broker,
    admin: AdminClient,
    make_topic: MakeTopic,
    writer: Writer,
    is_running: bool,
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, dict.fromkeys(KEYS, "old"))
    backends = deploy(views_toml(v={"topic": topic})).start(2)
    settle(backends)
    if not is_running:
        for backend in backends:
            backend.kill()
    delete(admin, topic)
    make_topic(4, topic)
    # the other writer knows two partitions
    Writer(broker.bootstrap_servers).table(topic, dict.fromkeys(KEPT, "new"))
    if not is_running:
        for backend in backends:
            backend.launch()
        for backend in backends:
            backend.wait_listening()
    expected = dict.fromkeys(KEYS, "key-not-found") | dict.fromkeys(KEPT, "new")
    wait_values(backends, expected)
    settle(backends)
    for backend in backends:
        for partition in range(4):
            path = f"/views/v/keys?partition={partition}"
            backend.wait(lambda b=backend, path=path: b.get(path).status == 200, path, 15)


def test_changes_of_a_moved_key_are_refused_at_once(
    deploy: Deploy, admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> None:
    """No instance can follow them, so nginx asks only one."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, dict.fromkeys(KEYS, "old"))
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1", wait_timeout="0")
    backends = deployment.start(2)
    moves = mover(PARTITIONS, 4)
    moving = [f"{key_path('v', key)}/changes" for key in KEYS if moves(key)]
    followed = HTTPConnection("127.0.0.1", backends[0].port, timeout=TIMEOUT)
    with closing(followed):
        followed.request("GET", moving[0])
        stream = followed.getresponse()
        assert stream.status == 200
        [future] = admin.create_partitions([NewPartitions(topic, 4)]).values()
        # it ends, because it would miss the changes in the new partition
        assert stream.read().count(b"event: value") == 1

    def repartitioned(answer: Response | None) -> bool:
        return answer is not None and answer.status == 503 and answer.code == "repartitioned"

    future.result(20)
    for backend in backends:
        backend.wait(
            lambda b=backend: b.processors()["views"]["v"]["partitions"] == 4, "it to know"
        )
    settle(backends)
    assert backends[0].get(moving[0]).headers["Retry-Elsewhere"] == "no"
    nginx = deployment.proxy(backends[0])
    for path in moving:
        with nginx.client() as client:
            answer = client.get(path)
        assert repartitioned(answer), answer
        assert answer.headers["Retry-After"] == "1"
    entries = nginx.access_log(len(moving), "/views/v/keys/")
    assert {(entry["attempts"], entry["status"]) for entry in entries} == {(1, 503)}


def test_the_leader_learns_of_new_partitions_from_members(
    deploy: Deploy, admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, dict.fromkeys(KEYS, "old"))
    deployment = deploy(views_toml(v={"topic": topic}), polls_per_leader_look="1e6")
    backends = deployment.start(2)
    [future] = admin.create_partitions([NewPartitions(topic, 3)]).values()
    future.result(20)
    for backend in backends:
        backend.wait(
            lambda b=backend: b.processors()["views"]["v"]["partitions"] == 3, "the topology"
        )
    settle(backends)


def test_records_in_new_partitions_are_not_mispartitioned(
    deploy: Deploy, broker: Broker, admin: AdminClient, make_topic: MakeTopic, writer: Writer
) -> None:
    """A producer knows the new partition count before the backend does."""
    topic = make_topic(PARTITIONS)
    writer.table(topic, dict.fromkeys(KEYS, "old"))
    # the backend fetches the topic's metadata only if it has a reason; as the leader, it looks for
    # new partitions three times a second
    few_polls = {"end_offset_interval": "3600", "polls_per_leader_look": "0.0001"}
    [backend] = deploy(views_toml(v={"topic": topic}), wait_timeout="0", **few_polls).start()
    [future] = admin.create_partitions([NewPartitions(topic, 3)]).values()
    future.result(20)
    wait_until(lambda: len(admin.list_topics(topic, 5).topics[topic].partitions) == 3, 20, "three")
    Writer(broker.bootstrap_servers).table(topic, dict.fromkeys(KEYS, "new"))

    def is_current(key: str) -> bool:
        answer = backend.get(key_path("v", key))
        return answer.status == 200 and answer.json()["value"] == "new"

    for key in KEYS:
        backend.wait(lambda key=key: is_current(key), f"the new value of {key}")
    assert {p["mis_partitioned"] for p in backend.partitions("v")} == {0}
