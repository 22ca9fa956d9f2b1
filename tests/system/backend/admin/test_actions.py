"""The commands of the admin page, in a real browser: each asks first, is audited, and its result is
seen on the page."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from kafka import KafkaConsumer
from selenium import webdriver

from backend.pipelines.consumer_groups import ConsumerGroups
from local.kafka.broker import Broker, quiet_admin
from local.waiting import wait_until
from model.pipelines.commands import GROUP_SUFFIX, parse_command
from tests.support.backends import Backend
from tests.support.browser import AdminPage
from tests.support.deployment import Deployment, views_toml
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, commit_offsets

PARTITIONS = 4


@pytest.fixture(scope="module")
def topic(make_topic: MakeTopic, broker: Broker) -> str:
    topic = make_topic(PARTITIONS)
    Writer(broker.bootstrap_servers).table(topic, {f"k{n}": n for n in range(30)})
    return topic


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def backends(
    broker: Broker, topic: str, audit_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Backend]]:
    views = views_toml(things={"topic": topic, "pipeline": f"job-{topic}"})
    with Deployment(
        tmp_path_factory.mktemp("actions"),
        broker.bootstrap_servers,
        views,
        standby_replicas="1",
        audit_log=str(audit_log),
    ) as deployment:
        yield deployment.start(2)


@pytest.fixture(scope="module")
def page(backends: list[Backend], driver: webdriver.Chrome) -> AdminPage:
    page = AdminPage(driver, backends[0].port)
    page.wait(lambda: len(page.grid("things")) == PARTITIONS, "the grid")
    return page


@pytest.fixture
def audited(audit_log: Path) -> Callable[[], list[dict[str, Any]]]:
    """The lines since the test began."""
    before = len(audit_log.read_text().splitlines()) if audit_log.exists() else 0

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in audit_log.read_text().splitlines()[before:]]

    return lines


class Job:
    """Sends heartbeats as a Spark job does, and carries out commands."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._admin = quiet_admin(broker.bootstrap_servers)
        self._groups = ConsumerGroups({"bootstrap_servers": broker.bootstrap_servers}, 5)
        self._group, self._topic = f"job-{topic}", topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.carried_out: list[str] = []

    def __enter__(self) -> Job:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._groups.close()

    def _run(self) -> None:
        state, last = "running", None
        while not self._over.wait(0.3):
            sent = self._groups.committed([self._group + GROUP_SUFFIX])
            for committed in sent[self._group + GROUP_SUFFIX].values():
                command = parse_command(committed.metadata)
                if command is not None and command.id != last:
                    last = command.id
                    self.carried_out.append(command.action)
                    state = "paused" if command.action == "pause" else "running"
            at = time.time_ns() // 1_000_000
            heartbeat = json.dumps({"state": state, "at": at, "command": last})
            offsets = [TopicPartition(self._topic, 0, 0, metadata=heartbeat)]
            commit_offsets(self._admin, self._group, offsets)


def shown(page: AdminPage, text: str, within: str = "body") -> Any:
    """The visible buttons with this text."""
    return page.run(
        """return [...document.querySelectorAll(arguments[1] + " button")].filter(
             (button) => button.textContent === arguments[0] && button.checkVisibility())""",
        text,
        within,
    )


def press(page: AdminPage, text: str, within: str = "body", answer: str = "yes") -> str:
    """Presses the first such button and answers the question, which is returned."""
    page.wait(lambda: shown(page, text, within), f"the button {text}")
    shown(page, text, within)[0].click()
    page.wait(lambda: page.one("#confirm").is_displayed(), "the question")
    question = page.text("#confirm-question")
    page.run("document.getElementById('outcome').hidden = true")
    page.one(f"#confirm-{answer}").click()
    page.wait(lambda: not page.one("#confirm").is_displayed(), "the end of the question")
    return question


def outcome(page: AdminPage) -> str:
    page.wait(
        lambda: page.run(
            "const o = document.getElementById('outcome');"
            "return !o.hidden && !o.textContent.startsWith('Sending')"
        ),
        "the outcome",
    )
    return page.text("#outcome")


def test_a_pipeline_is_paused_and_resumed(
    page: AdminPage, broker: Broker, topic: str, audited: Callable[[], list[dict[str, Any]]]
) -> None:
    with Job(broker, topic) as job:
        question = press(page, "Pause pipeline", answer="no")
        assert question.startswith("Pause the pipeline of view things?")
        press(page, "Pause pipeline")
        assert "has the command pause" in outcome(page)
        page.wait(lambda: "pipeline-paused" in page.attention(), "that it is paused")
        assert job.carried_out == ["pause"], "the first question was answered with no"
        assert not shown(page, "Pause pipeline")
        press(page, "Resume pipeline")
        page.wait(lambda: "pipeline-paused" not in page.attention(), "that it goes on")
        assert job.carried_out == ["pause", "resume"]
    lines = [line for line in audited() if line["route"] == "/views/{view}/pipeline"]
    assert [(line["event"], line["action"]) for line in lines] == [
        ("admin", "pause"),
        ("admin", "resume"),
    ]
    page.wait(lambda: not shown(page, "Pause pipeline"), "that no job follows commands")


def test_an_instance_is_drained_and_undrained(
    page: AdminPage, backends: list[Backend], audited: Callable[[], list[dict[str, Any]]]
) -> None:
    first, second = backends
    card = ".instance:nth-child(2)"
    assert page.text(f"{card} h3") == second.id

    def owners() -> set[str]:
        return {tile["owner"] for tile in page.grid("things").values()}

    page.wait(lambda: owners() == {first.id, second.id}, "two owners")
    question = press(page, "Drain", card)
    assert question.startswith(f"Drain {second.id}?")
    assert f"{second.id} is being drained" in outcome(page)
    page.wait(lambda: owners() == {first.id}, "the other one to take over")
    assert page.instances()[second.id]["state"] == "drained"
    page.wait(lambda: page.instances()[second.id]["Partitions"] == "0", "that it has none")
    assert f"{second.id} is drained" in page.attention()["instance-drained"][0]
    assert {tile["state"] for tile in page.grid("things").values()} == {"answerable"}
    assert second.get("/things").status == 404
    assert second.get("/views/things/keys/k1").status == 200, "it passes reads on"
    press(page, "Undrain", card)
    page.wait(lambda: owners() == {first.id, second.id}, "two owners")
    page.wait(lambda: "instance-drained" not in page.attention(), "that it takes part")
    # the command went through the first instance: both have written a line
    lines = [(line["instance"], line["route"], line["status"]) for line in audited()]
    for action in ("drain", "undrain"):
        route = f"/admin/instances/{{instance}}/{action}"
        assert (first.id, route, 200) in lines
        assert (second.id, route, 200) in lines


def test_a_partition_is_rebuilt(page: AdminPage, backends: list[Backend]) -> None:
    for backend in backends:
        backend.wait_ready(2)
    before = sum(backend.instance()["rebuilds"] for backend in backends)
    page.run("document.querySelector('.view details').open = true")
    question = press(page, "Rebuild", ".view details")
    assert question.startswith("Rebuild partition 0 of view things on ")
    assert "Partition 0 of view things is being rebuilt" in outcome(page)

    def rebuilt() -> bool:
        return sum(int(card["Rebuilds"]) for card in page.instances().values()) == before + 1

    page.wait(rebuilt, "the rebuild")
    page.wait(lambda: page.totals()["Below replica target"] == "none", "all replicas")
    assert any("an operator has asked for it" in backend.log() for backend in backends)
    page.run("document.querySelector('.view details').open = false")


def test_the_last_replica_is_rebuilt_only_if_that_is_forced(
    page: AdminPage, backends: list[Backend]
) -> None:
    first, second = backends
    path = f"/admin/instances/{first.id}/rebuild"
    body = {"view": "things", "partition": 0}
    json_type = {"Content-Type": "application/json"}
    with second.paused(), first.client() as client:
        answer = client.request("POST", path, json.dumps(body).encode(), json_type)
        assert (answer.status, answer.code) == (409, "last-replica")
    with second.client() as client:
        for wrong, code in (({"view": "nothing"}, "bad-request"), ({}, "bad-request")):
            answer = client.request("POST", path, json.dumps(wrong).encode(), json_type)
            assert (answer.status, answer.code) == (400, code)
        forced = json.dumps({**body, "force": True}).encode()
        assert client.request("POST", path, forced, json_type).status == 200
        unknown = client.request("POST", "/admin/instances/b9/drain", b"{}", json_type)
        assert (unknown.status, unknown.code) == (404, "instance-not-found")
        none = json.dumps({**body, "partition": 99}).encode()
        assert client.request("POST", path, none, json_type).code == "partition-not-here"
    for backend in backends:
        backend.wait_ready(2)


def test_a_group_that_is_left_behind_is_deleted(
    page: AdminPage, backends: list[Backend], broker: Broker, topic: str
) -> None:
    for group, commits in ((f"dead-{topic}", False), (f"other-{topic}", True)):
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=commits,
        )
        wait_until(lambda c=consumer: c.poll(timeout_ms=500), 20, "records")
        consumer.close()
    page.run("document.getElementById('groups').open = true")
    listed = "return [...document.querySelectorAll('#groups-list code')].map((c) => c.textContent)"
    page.wait(lambda: f"dead-{topic}" in page.run(listed), "the group")
    assert f"other-{topic}" not in page.run(listed), "it has offsets"
    number = page.run(listed).index(f"dead-{topic}") + 1
    press(page, "Delete", f"#groups-list li:nth-child({number})")
    assert outcome(page) == f"The consumer group dead-{topic} is deleted."
    page.one("#groups-again").click()
    page.wait(lambda: f"dead-{topic}" not in page.run(listed), "that it is gone")

    own = backends[0].settings["QUERYABLE_APPLICATION_ID"]
    json_type = {"Content-Type": "application/json"}
    with backends[0].client() as client:
        for group, status, code in (
            (own, 409, "group-in-use"),
            (f"other-{topic}", 409, "group-has-offsets"),
            (f"dead-{topic}", 404, "group-not-found"),
        ):
            answer = client.request("POST", f"/admin/groups/{group}/delete", b"{}", json_type)
            assert (answer.status, answer.code) == (status, code), group
