"""A deployment at a new, empty broker: restored from a copy of its topics, or with data folders of
the old one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from model.views_file import parse_views
from spark.batch.offsets import pin
from tests.support.backends import Backend
from tests.support.client import Response, key_path
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.pushes import push
from tests.support.read_loop import ReadLoop, accepts_only
from tests.support.topics import Writer
from tests.system.backup.mirror import mirror
from tests.system.data_folders import back_up, rebuilt, restore
from tests.system.stores import Stores

NUMBERS = {f"key {n}": n for n in range(20)}
PUSHED = {f"pushed {n}": n for n in range(20)}


@pytest.fixture(scope="module")
def new_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One without the topics of the old one, and with another cluster id."""
    properties = {"log.retention.ms": "-1"}
    with Broker(tmp_path_factory.mktemp("new"), properties=properties) as running:
        yield running


def answers(backend: Backend, paths: list[str]) -> dict[str, tuple[int, bytes]]:
    with backend.client() as client:
        found = {path: client.get(path) for path in paths}
    return {path: (answer.status, answer.body) for path, answer in found.items()}


def test_a_deployment_is_restored_from_a_copy_of_its_topics(
    tmp_path: Path,
    deploy: Deploy,
    make_topic: MakeTopic,
    writer: Writer,
    broker: Broker,
    new_broker: Broker,
) -> None:
    """All kinds of stores, the current version of a view, and a pushed view, which must be pushed
    again."""
    stores = Stores(make_topic, writer)
    stores.write()
    first, second, pushed = make_topic(2), make_topic(3), make_topic(2)
    writer.table(first, dict.fromkeys(NUMBERS, "old"))
    writer.table(second, NUMBERS)
    pushes = tmp_path / "pushes"
    pushes.mkdir()
    text = (
        views_toml(
            orders={"topic": first},
            pushed={"topic": pushed, "push": str(pushes)},
            **stores.views,
        )
        + f'[views."orders@2"]\ntopic = "{second}"\nkey = "string"\nvalue = "json"\n'
    )
    name = f"restored-{tmp_path.name}"

    def push_to(servers: str, deployment: Deployment, table: dict[str, Any]) -> None:
        pins = pin("pushed", servers, str(deployment.views_path))
        push(pushes, pushed_view, pins, table)

    [pushed_view] = [view for view in parse_views(text).views if view.name == "pushed"]
    old = deploy(text, application_id=name, standby_replicas="1", drain_time="0")
    push_to(broker.bootstrap_servers, old, PUSHED)
    writer.table(pushed, {"pushed 0": 100})
    instances = old.start(2)
    switched = json.dumps({"version": 2}).encode()
    with instances[0].client() as client:
        assert client.request("POST", "/views/orders/switch", switched).status == 200
    paths = [*stores.expected(), *(key_path("orders", key) for key in NUMBERS)]
    of_pushes = [key_path("pushed", key) for key in PUSHED]
    instances[0].wait(lambda: stores.are_answers(instances[0].get), "the last round")
    path = key_path("orders", "key 7")
    instances[0].wait(lambda: instances[0].get(path).json()["value"] == 7, "version 2")
    before = answers(instances[0], [*paths, *of_pushes])
    assert json.loads(before[of_pushes[0]][1])["value"] == 100
    assert json.loads(before[of_pushes[1]][1])["value"] == 1
    for instance in instances:
        assert instance.stop() == 0

    topics = [*stores.topics.values(), first, second, pushed, f"{name}-versions"]
    assert mirror(broker.bootstrap_servers, new_broker.bootstrap_servers, topics) > len(paths)
    restored = deploy(text, new_broker, application_id=name, standby_replicas="1", wait_timeout="0")
    for _ in range(2):
        restored.new().launch()
    ports = [instance.port for instance in restored.all]

    def as_before(path: str, answer: Response) -> str:
        same = (answer.status, answer.body) == before[path]
        return "" if same or answer.status == 503 else f"not {before[path]!r}"

    wanted = {path: before[path] for path in paths}
    with ReadLoop(ports, [*paths, *of_pushes], as_before, threads=2) as read_loop:
        for instance in restored.all:
            instance.wait_listening()
            instance.wait(lambda i=instance: answers(i, paths) == wanted, "all answers")
        # the push of the old topic has offsets that mean nothing in the new one
        assert {status for status, _ in answers(restored.all[0], of_pushes).values()} == {503}
        restored.all[0].wait_log("cannot be used: topic")
        table = {**PUSHED, "pushed 0": 100}
        push_to(new_broker.bootstrap_servers, restored, table)
        settle(restored.all)
        read_loop.all_again()
    for instance in restored.all:
        assert answers(instance, [*paths, *of_pushes]) == before
    assert instance.get(path).headers["View-Version"] == "2"


# view -> how often the kept keys are written to its topic at the new broker; None: it has no topic
WRITES = {"same": 3, "more": 9, "fewer": 1, "none": 0, "wider": 3, "missing": None}
KEYS = [f"key {n}" for n in range(40)]
KEPT = KEYS[:15]
PARTITIONS = 2


def test_data_folders_beside_a_new_broker_give_no_old_answer(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, new_broker: Broker
) -> None:
    """Topics of the same names have other ids, and more, fewer or as many records; one has another
    number of partitions, and one is missing."""
    topics = {view: make_topic(PARTITIONS) for view in WRITES}
    for topic in topics.values():
        for number in range(3):
            writer.table(topic, dict.fromkeys(KEYS, f"old {number}"))
    views = views_toml(**{view: {"topic": topic} for view, topic in topics.items()})
    deployment = deploy(views, standby_replicas="1", wait_timeout="0", drain_time="0")
    deployment.start(2)
    for backend in deployment.all:
        for view in WRITES:
            assert backend.get(key_path(view, KEYS[-1])).json()["value"] == "old 2"
    for backend in deployment.all:
        backend.terminate()
    assert [backend.wait_end() for backend in deployment.all] == [0, 0]
    copies = back_up(deployment.all)

    new_writer = Writer(new_broker.bootstrap_servers)
    expected: dict[str, object] = {}
    for view, times in WRITES.items():
        if times is None:
            expected |= {key_path(view, key): None for key in KEYS}
            continue
        count = PARTITIONS + (view == "wider")
        create_topics(quiet_admin(new_broker.bootstrap_servers), [Topic(topics[view], count)])
        for number in range(times):
            new_writer.table(topics[view], dict.fromkeys(KEPT, number))
        kept = dict.fromkeys(KEPT, times - 1) if times else {}
        expected |= {key_path(view, key): kept.get(key, "key-not-found") for key in KEYS}
    there = [path for path, answer in expected.items() if answer is not None]

    ports = [backend.port for backend in deployment.all]
    with ReadLoop(ports, list(expected), accepts_only(expected), threads=2) as read_loop:
        for backend in deployment.all:
            restore(backend, copies[backend.id])
            backend.settings["QUERYABLE_BOOTSTRAP_SERVERS"] = new_broker.bootstrap_servers
            backend.launch()

        def all_answered() -> bool:
            read_loop.check()
            return all(
                answered(backend.try_get(path)) for backend in deployment.all for path in there
            )

        deployment.all[0].wait(all_answered, "all views whose topic exists")
    for backend in deployment.all:
        assert backend.get(key_path("missing", KEYS[0])).status == 503
        for view, times in WRITES.items():
            if times is not None and view != "wider":
                line = f"view {view}, partition 0 is rebuilt: topic {topics[view]} was deleted"
                assert any(line in each for each in rebuilt(backend)), (line, rebuilt(backend))


def answered(answer: Response | None) -> bool:
    return answer is not None and answer.status != 503
