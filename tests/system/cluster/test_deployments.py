"""Two deployments of a service behind one nginx: compare, switch and roll back by command, under
load."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.models import CommandInfo
from typer.testing import CliRunner, Result

from local.kafka.broker import Broker
from local.waiting import wait_until
from queryable.cli.app import app
from queryable.cli.commands import diff
from queryable.cli.commands.switching import deployments
from queryable.cli.declaration.command import COMMANDS
from queryable.cli.exit_codes import NOT_FOUND, SUCCESS, USAGE_ERROR
from tests.support.client import Client, Response, key_path
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

KEYS = [f"key {n}" for n in range(30)]
PATHS = [
    *(key_path("orders", key) for key in KEYS),
    *(f"/o/key%20{n}" for n in range(10)),
    "/views/orders/keys?limit=1000",
    "/views/orders/count?exact=true",
]
SECRET = "a secret of at least 32 characters for tests"


def is_of_one_deployment(path: str, answer: Response) -> str:
    """The error in an answer: another status than 200, or values of both deployments."""
    if answer.status != 200:
        return f"failed: {answer}"
    document = answer.json()
    if "count?" in path:
        return "" if document["count"] == len(KEYS) else "another count"
    items = document.get("items", [document])
    if len({item["value"]["of"] for item in items}) != 1:
        return "values of two deployments"
    return "" if len(items) in (1, len(KEYS)) else "another number of items"


@dataclass
class Service:
    """Deployment `first` has been current since its start. `second` has other values."""

    name: str
    first: Deployment
    second: Deployment
    nginx: Nginx

    @property
    def ids(self) -> tuple[str, str]:
        first, second = (each.all[0].settings for each in (self.first, self.second))
        return first["QUERYABLE_APPLICATION_ID"], second["QUERYABLE_APPLICATION_ID"]

    def run(self, *arguments: str) -> Result:
        environment = {
            "QUERYABLE_URL": f"http://127.0.0.1:{self.nginx.port}",
            "QUERYABLE_CONFIG": "/dev/null",
        }
        return CliRunner().invoke(app, arguments, env=environment)

    def switch(self, deployment: str, *options: str) -> None:
        done = self.run("switch-deployment", deployment, *options)
        assert done.exit_code == SUCCESS, done.output

    def answers(self) -> str:
        """The deployment that answers through nginx."""
        with self.nginx.client() as client:
            of: str = client.get("/o/key%201").json()["value"]["of"]
            return of

    def switch_back(self) -> None:
        """Makes `first` current if it is not."""
        service = self.first.all[0].processors()["service"]
        if service["current"] != self.ids[0]:
            self.switch(self.ids[0], "--force")


def more_views(topic: str) -> str:
    return views_toml(orders={"topic": topic, "path": "/o"}, others={"topic": topic})


def command(port: int, deployment: str, name: str, body: Any) -> Response:
    with Client(port) as client:
        return client.request(
            "POST", f"/admin/deployments/{deployment}/{name}", json.dumps(body).encode()
        )


def restart(deployment: Deployment) -> None:
    for backend in deployment.all:
        backend.stop()
    for backend in deployment.all:
        backend.launch()
    settle(deployment.all)


@pytest.fixture(scope="module")
def made(
    broker: Broker, make_topic: MakeTopic, writer: Writer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    name = f"service-{time.time_ns()}"
    made_of = []
    for of in ("first", "second"):
        topic = make_topic(3)
        writer.table(topic, {key: {"of": of} for key in KEYS})
        deployment = Deployment(
            tmp_path_factory.mktemp(of),
            broker.bootstrap_servers,
            more_views(topic),
            application_id=f"{name}-{of}",
            service=name,
            session_timeout_ms="8000",  # an instance that is paused for some requests stays in
        )
        deployment.use_secrets(SECRET)
        made_of.append(deployment)
    first, second = made_of
    with first, second:
        first.start(2)
        second.start(2)
        wait_until(
            lambda: all(b.processors()["service"]["current"] for b in (*first.all, *second.all)),
            20, "that all instances know the service",
        )  # fmt: skip
        nginx = first.proxy(*first.all, *second.all)
        wait_until(
            lambda: len({each["application_id"] for each in nginx.health()["configured"] or ()})
            == 2,
            15, "that nginx knows both",
        )  # fmt: skip
        yield Service(name, first, second, nginx)


@pytest.fixture
def service(made: Service) -> Iterator[Service]:
    yield made
    made.switch_back()


def test_the_first_deployment_is_current_by_itself(service: Service) -> None:
    assert service.answers() == "first"
    for backend in (*service.first.all, *service.second.all):
        assert backend.processors()["service"]["current"] == service.ids[0]
    # an instance answers for its own deployment, whether it is current or not
    assert service.second.all[0].get("/o/key%201").json()["value"]["of"] == "second"


def test_the_commands_list_and_compare_the_deployments(service: Service) -> None:
    listed = json.loads(service.run("deployments").stdout)
    assert listed["service"]["current"] == listed["in_use"] == service.ids[0]
    assert [each["application_id"] for each in listed["deployments"]] == [*service.ids]
    for each in listed["deployments"]:
        assert each["ready"], each["why_not_ready"]
        assert each["views"] == ["orders", "others"]
        assert {i["current"] for i in each["instances"]} == {service.ids[0]}
    compared = service.run("diff", *service.ids, "orders", "--all")
    assert compared.exit_code == NOT_FOUND, compared.output
    counts = json.loads(compared.stdout.splitlines()[-1])
    assert (counts["compared"], counts["different"]) == (len(KEYS), len(KEYS))


def test_a_switch_and_the_way_back_fail_no_read(service: Service) -> None:
    first, second = service.ids
    ports = [service.nginx.port]
    with ReadLoop(ports, PATHS, is_of_one_deployment, threads=3) as read_loop:
        for _ in range(2):
            service.switch(second)
            read_loop.all_again()
            # a worker of nginx has read the change, and the others look for it ten times a second
            wait_until(lambda: service.answers() == "second", 1, "the second deployment")
            done = service.run("rollback-deployment")
            assert done.exit_code == SUCCESS, done.output
            assert json.loads(done.stdout)["current"] == first
            read_loop.all_again()
            wait_until(lambda: service.answers() == "first", 1, "the first deployment")
    assert set(read_loop.outcomes) == {"200"}, read_loop.outcomes


def test_the_decision_outlives_all_processes_but_the_broker(service: Service) -> None:
    service.switch(service.ids[1])
    service.nginx.stop()
    restart(service.first)
    restart(service.second)
    service.nginx.start()
    wait_until(lambda: service.nginx.health()["application_id"], 15, "a topology")
    wait_until(lambda: service.nginx.health()["configured"], 15, "that nginx knows both")
    assert service.nginx.health()["application_id"] == service.ids[1]
    wait_until(lambda: service.answers() == "second", 10, "answers")


def test_a_deployment_that_is_not_ready_is_refused(service: Service) -> None:
    asked, hanging = service.second.all
    with hanging.paused():
        refused = command(asked.port, service.ids[1], "switch", {})
        assert (refused.status, refused.code) == (409, "deployment-not-ready")
        assert f"instance {hanging.id} does not say how far it is" in refused.json()["detail"]
        assert service.answers() == "first"
        assert command(asked.port, service.ids[1], "switch", {"force": True}).status == 200
    settle(service.second.all)
    wait_until(lambda: service.answers() == "second", 10, "that nginx follows")


def test_a_deployment_without_the_same_views_is_refused(service: Service) -> None:
    path = service.second.views_path
    before = path.read_text()
    path.write_text(before[: before.index("[views.others]")])
    try:
        restart(service.second)
        refused = service.run("switch-deployment", service.ids[1])
        assert refused.exit_code == USAGE_ERROR
        assert "does not have the views others" in refused.stderr
    finally:
        path.write_text(before)
        restart(service.second)


@pytest.mark.parametrize("command", [*COMMANDS[deployments.__name__], *COMMANDS[diff.__name__]])
def test_the_examples_of_the_help_run(service: Service, command: CommandInfo) -> None:
    """Those of `diff` with URLs: tests/system/queries/test_examples.py."""
    text = inspect.getdoc(command.callback) or ""
    examples = [line.strip() for line in text.splitlines() if line.strip()[:10] == "queryable "]
    mine = [line for line in examples if "http://" not in line]
    assert mine
    shown = {"shop-1": service.ids[0], "shop-2": service.ids[1]}
    shown["https://topics.example.org"] = f"http://127.0.0.1:{service.nginx.port}"
    for line in mine:
        if "rollback" in line:
            service.switch(service.ids[1])
        for old, new in shown.items():
            line = line.replace(old, new)
        done = service.run(*line.split()[1:])
        assert done.exit_code == (NOT_FOUND if "diff" in line else SUCCESS), done.output
        service.switch_back()


def test_what_a_command_refuses(service: Service) -> None:
    first, second = service.ids
    of_first, of_second = service.first.all[0].port, service.second.all[0].port
    refusals = [
        (of_first, second, "switch", {}, "other-deployment"),
        (service.nginx.port, second, "switch", {}, "other-deployment"),
        (of_first, first, "switch", {}, "deployment-is-current"),
        (of_first, first, "rollback", {}, "deployment-is-current"),
        (of_second, second, "switch", {"force": 1}, "bad-request"),
        (of_second, second, "switch", {"x": 1}, "bad-request"),
    ]
    for port, deployment, name, body, code in refusals:
        answer = command(port, deployment, name, body)
        assert answer.code == code, (deployment, name, answer)
        assert answer.status == (400 if code == "bad-request" else 409)
    assert service.answers() == "first"


def test_a_deployment_outside_a_service_cannot_be_switched(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    views = views_toml(orders={"topic": make_topic(1)})
    with Deployment(tmp_path, broker.bootstrap_servers, views) as deployment:
        [backend] = deployment.start()
        id_ = backend.settings["QUERYABLE_APPLICATION_ID"]
        assert "service" not in backend.processors()
        for name in ("switch", "rollback"):
            answer = command(backend.port, id_, name, {})
            assert (answer.status, answer.code) == (409, "no-service")


def test_only_a_previous_deployment_can_be_rolled_back_to(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    name = f"service-{time.time_ns()}"
    views = views_toml(orders={"topic": make_topic(1)})
    with (
        Deployment(tmp_path / "1", broker.bootstrap_servers, views, service=name) as first,
        Deployment(tmp_path / "2", broker.bootstrap_servers, views, service=name) as second,
    ):
        [one], [other] = first.start(), second.start()
        ids = [each.settings["QUERYABLE_APPLICATION_ID"] for each in (one, other)]
        wait_until(lambda: other.processors()["service"]["current"], 20, "the first record")
        answer = command(other.port, ids[1], "rollback", {})
        assert (answer.status, answer.code) == (409, "not-previous-deployment")
        assert command(other.port, ids[1], "switch", {}).status == 200
        wait_until(
            lambda: one.processors()["service"]["current"] == ids[1], 10, "that the other follows"
        )
        assert command(one.port, ids[0], "rollback", {}).json()["current"] == ids[0]
