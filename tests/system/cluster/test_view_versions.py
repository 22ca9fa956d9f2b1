"""Versions of a view in a real deployment, under load: a switch loses and mixes no answer."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from local.waiting import stretch, wait_until
from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

KEYS = [f"key {n}" for n in range(40)]
ONLY_IN = {1: "only in 1", 2: "only in 2"}
WHOLE = (
    "/views/orders/keys?limit=1000",
    "/views/orders/count?exact=true",
    "/views/orders/top?by=n&limit=1000",
    "/views/orders/aggregate?by=v",
)
PATHS = [*(key_path("orders", key) for key in KEYS), *(f"/o/key%20{n}" for n in range(10)), *WHOLE]


def values_of(version: int) -> dict[str, Any]:
    return {key: {"v": version, "n": n} for n, key in enumerate([*KEYS, ONLY_IN[version]])}


def is_of_one_version(path: str, answer: Response) -> str:
    """The error in an answer: no 404, no other status, no value of another version than it says."""
    if answer.status != 200:
        return "failed"
    version = int(answer.headers["View-Version"])
    document = answer.json()
    if "count?" in path:
        return "" if document["count"] == len(KEYS) + 1 else "another count"
    if "aggregate" in path:
        found = {(each["group"], each["entries"]) for each in document["items"]}
        return "" if found == {(version, len(KEYS) + 1)} else "groups of another version"
    items = document.get("items", [document])
    if {item["value"]["v"] for item in items} != {version}:
        return "a value of another version"
    keys = {item["key"] for item in items}
    if len(items) > 1 and keys != {*KEYS, ONLY_IN[version]}:
        return "keys of another version"
    return ""


@pytest.fixture(scope="module")
def deployment(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Deployment:
    """Three instances with version 1 in 3 partitions and version 2 in 4; nothing is written to the
    topic of version 3, which does not exist."""
    first, second = make_topic(3), make_topic(4)
    writer.table(first, values_of(1))
    writer.table(second, values_of(2))
    text = views_toml(orders={"topic": first, "path": "/o"})
    for version, topic in ((2, second), (3, f"{second}-missing")):
        text += (
            f'[views."orders@{version}"]\ntopic = "{topic}"\nkey = "string"\nvalue = "json"\n'
            f'path = "/o"\n'
        )
    # an instance that is paused for one request stays in the group
    made = module_deploy(text, standby_replicas="1", session_timeout_ms="8000")
    made.start(3)
    return made


@pytest.fixture(scope="module")
def nginx(deployment: Deployment) -> Nginx:
    return deployment.proxy()


def command(port: int, name: str, **body: Any) -> Response:
    with Client(port) as client:
        return client.request("POST", f"/views/orders/{name}", json.dumps(body).encode())


def current(backend: Backend) -> int | None:
    answer = backend.try_get("/o/key%201")
    if answer is None or answer.status != 200:
        return None
    return int(answer.headers["View-Version"])


def wait_all(backends: list[Backend], version: int) -> None:
    wait_until(
        lambda: all(current(backend) == version for backend in backends),
        10, f"all instances to answer from version {version}", 0.005,
    )  # fmt: skip


def make_current(port: int, backends: list[Backend], version: int) -> None:
    answer = command(port, "switch", version=version)
    assert answer.status == 200 or answer.code == "version-is-current", answer
    wait_all(backends, version)


def test_readers_see_one_version_in_each_answer(deployment: Deployment, nginx: Nginx) -> None:
    """0 × 404, 0 wrong, 0 failed while the current version changes six times."""
    backends = deployment.all
    ports = [nginx.port, backends[0].port]
    with ReadLoop(ports, PATHS, is_of_one_version, threads=3) as read_loop:
        for number in range(3):
            asked = backends[number].port
            answer = command(nginx.port if number else asked, "switch", version=2)
            assert answer.status == 200, answer
            assert answer.json()["current"] == 2
            read_loop.all_again()
            assert command(asked, "rollback").json()["current"] == 1
            read_loop.all_again()
    assert set(read_loop.outcomes) == {"200"}, read_loop.outcomes
    assert read_loop.outcomes["200"] > 6 * len(PATHS)
    # the proxy has the topology of the last change
    nginx.wait_for_map(backends[0].epoch)


def test_a_rollback_takes_less_than_a_second(deployment: Deployment, nginx: Nginx) -> None:
    """From the command until every instance answers from the previous version, which stays so."""
    backends = deployment.all
    times = []
    for _ in range(3):
        make_current(nginx.port, backends, 2)
        began = time.monotonic()
        assert command(nginx.port, "rollback").status == 200
        wait_all(backends, 1)
        times.append(time.monotonic() - began)
    assert max(times) < 1 * stretch(), times
    with Client(nginx.port) as client:
        assert {client.get(path).headers["View-Version"] for path in PATHS} == {"1"}


@pytest.mark.parametrize("is_decided", [False, True])
def test_a_killed_instance_leaves_one_truth(
    deployment: Deployment, nginx: Nginx, is_decided: bool
) -> None:
    """The group's leader dies while it makes another version current, once when it has just got the
    command and once when another instance follows: all others have the same version, and answer."""
    backends = deployment.all
    victim = next(backend for backend in backends if "assignor placed" in backend.log())
    make_current(nginx.port, backends, 1)
    others = [backend for backend in backends if backend is not victim]
    body = b'{"version":2}'
    with (
        ReadLoop([nginx.port], PATHS, is_of_one_version, threads=2) as read_loop,
        socket.create_connection(("127.0.0.1", victim.port)) as connection,
    ):
        read_loop.all_again()
        connection.sendall(
            b"POST /views/orders/switch HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        if is_decided:
            wait_all(others[:1], 2)
        victim.kill()
        read_loop.all_again()
    assert set(read_loop.outcomes) == {"200"}, read_loop.outcomes
    wait_until(lambda: len({current(other) for other in others}) == 1, 5, "one truth", 0.01)
    decided = current(others[0])
    assert decided == 2 or not is_decided
    victim.launch()
    settle(backends)
    assert {current(backend) for backend in backends} == {decided}


def test_two_commands_at_the_same_time_have_one_result(
    deployment: Deployment, nginx: Nginx
) -> None:
    backends = deployment.all
    make_current(nginx.port, backends, 1)
    before = backends[0].get("/views/orders/versions").json()["revision"]
    answers: list[Response] = []
    threads = [
        threading.Thread(
            target=lambda port=backend.port: answers.append(command(port, "switch", version=2))
        )
        for backend in backends
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers].count(200) == 1, answers
    assert {a.code for a in answers if a.status != 200} <= {
        "version-conflict", "version-is-current",
    }  # fmt: skip
    wait_all(backends, 2)
    assert backends[1].get("/views/orders/versions").json()["revision"] == before + 1


def test_a_version_that_has_not_caught_up_is_refused(deployment: Deployment, nginx: Nginx) -> None:
    refused = command(nginx.port, "switch", version=3)
    assert (refused.status, refused.code) == (409, "version-not-ready")
    assert "-missing" in refused.json()["detail"]
    refused = command(nginx.port, "switch", version=4)
    assert (refused.status, refused.code) == (404, "version-not-found")
    make_current(nginx.port, deployment.all, 1)
    with deployment.all[2].paused():
        refused = command(deployment.all[0].port, "switch", version=2, wait=0)
        assert (refused.status, refused.code) == (409, "version-not-ready")
        assert deployment.all[2].id in refused.json()["detail"]
    settle(deployment.all)
    for body in (
        {}, {"version": "2"}, {"version": True}, {"version": 2, "max_lag": -1},
        {"version": 2, "wait": 51},
    ):  # fmt: skip
        assert command(nginx.port, "switch", **body).status == 400, body
    assert {current(backend) for backend in deployment.all} == {1}


def test_the_status_shows_how_far_each_version_is(deployment: Deployment, nginx: Nginx) -> None:
    make_current(nginx.port, deployment.all, 1)
    with Client(nginx.port) as client:
        document = client.get("/views/orders/versions").json()
    first, second, third = document["versions"]
    assert (document["view"], document["current"]) == ("orders", 1)
    assert [each["name"] for each in document["versions"]] == ["orders@1", "orders@2", "orders@3"]
    assert (first["replicas"], first["answerable"], first["lag"]) == (6, 6, 0)
    assert (second["replicas"], second["answerable"], second["lag"]) == (8, 8, 0)
    assert (third["partitions"], third["replicas"]) == (0, 0)
    assert [(i["id"], i["current"], i["declared"]) for i in document["instances"]] == [
        (backend.id, 1, [1, 2, 3]) for backend in deployment.all
    ]


def folders(backend: Backend, name: str) -> list[Path]:
    return [path for path in (backend.data_dir / name).glob("*") if path.name.isdigit()]


def test_the_last_version_is_dropped_and_a_restart_keeps_the_choice(
    deployment: Deployment, nginx: Nginx
) -> None:
    backends = deployment.all
    make_current(nginx.port, backends, 2)
    refused = command(nginx.port, "drop", version=2)
    assert (refused.status, refused.code) == (409, "version-is-current")
    assert any(folders(backend, "orders") for backend in backends)
    with ReadLoop([nginx.port], PATHS, is_of_one_version, threads=2) as read_loop:
        answer = command(nginx.port, "drop", version=1)
        assert answer.status == 200, answer
        assert (answer.json()["dropped"], answer.json()["previous"]) == ([1], None)
        wait_until(
            lambda: not any(folders(backend, "orders") for backend in backends),
            20, "the stores of version 1 to be deleted", 0.1,
        )  # fmt: skip
        settle(backends)
        read_loop.all_again()
    assert set(read_loop.outcomes) == {"200"}, read_loop.outcomes
    assert all(folders(backend, "orders@2") for backend in backends)
    gone = backends[0].get("/views/orders@1/keys/key%201")
    assert (gone.status, gone.code) == (404, "view-not-found")
    refused = command(nginx.port, "rollback")
    assert (refused.status, refused.code) == (409, "no-previous-version")
    for backend in backends:
        backend.stop()
    for backend in backends:
        backend.launch()
    settle(backends)
    assert {current(backend) for backend in backends} == {2}
    assert not any(folders(backend, "orders") for backend in backends)
    document = backends[0].get("/views/orders/versions").json()
    assert (document["current"], document["dropped"]) == (2, [1])
