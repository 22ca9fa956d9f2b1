"""Maintenance of an instance from the console, while its keys are read."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from queryable.cli.app import app
from queryable.cli.exit_codes import SUCCESS, UNAVAILABLE, USAGE_ERROR
from tests.support.backends import Backend
from tests.support.client import Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

TABLE = {f"k{n}": n for n in range(100)}


def console(backend: Backend, *arguments: str, code: int = SUCCESS) -> dict[str, Any]:
    environment = {"QUERYABLE_URL": f"http://{backend.address}", "QUERYABLE_CONFIG": "/dev/null"}
    done = CliRunner().invoke(app, arguments, env=environment)
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if done.stdout else {}


def test_no_read_fails_while_an_instance_is_maintained(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(4)
    writer.table(topic, TABLE)
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="0")
    first, second = deployment.start(2)
    settle([first, second])
    rebuilds = second.instance()["rebuilds"]
    expected = {key_path("v", key): value for key, value in TABLE.items()}

    def judge(path: str, answer: Response) -> str:
        is_right = answer.status == 200 and answer.json()["value"] == expected[path]
        return "" if is_right else f"{answer.status} {answer.body!r}"

    with ReadLoop([first.port, second.port], list(expected), judge, threads=2) as read_loop:
        # the command goes to the other instance
        done = console(first, "drain", "b2")
        assert done == {"instance": "b2", "drained": True, "partitions": 0}
        # it closes their stores after the topology has changed
        second.wait(lambda: not second.partitions("v"), "the stores to be closed")
        read_loop.all_again()
        # the last one stays
        assert console(first, "drain", "b1", code=USAGE_ERROR) == {}
        console(first, "undrain", "b2")
        second.wait(lambda: len(second.partitions("v")) == 2, "its share of the partitions")
        settle([first, second])
        read_loop.all_again()
        assert set(read_loop.outcomes) == {"200"}
    partition = str(second.partitions("v")[0]["partition"])
    console(first, "rebuild", "b2", "v", partition, "--yes", code=USAGE_ERROR)
    console(first, "rebuild", "b2", "v", partition, "--yes", "--force")
    second.wait(lambda: second.instance()["rebuilds"] == rebuilds + 1, "the rebuild")
    settle([first, second])


def test_the_gate_of_a_rolling_restart(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """The others have all replicas again before the instance that was stopped is back."""
    topic = make_topic(4)
    writer.table(topic, TABLE)
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1")
    first, second, third = deployment.start(3)
    assert console(first, "wait-redundant", "b1", "b2", "b3")["below"] == []
    third.stop()
    answer = console(first, "wait-redundant", "--wait", "30")
    assert (answer["redundant"], answer["partitions"]) == (True, 4)
    answer = console(first, "wait-redundant", "b3", "--wait", "0", code=UNAVAILABLE)
    assert answer["not_running"] == ["b3"]
    third.launch()
    assert console(first, "wait-redundant", "b3", "--wait", "30")["not_running"] == []
    third.stop()
    second.kill()
    answer = console(first, "wait-redundant", "--wait", "5", code=UNAVAILABLE)
    assert answer["below"]
    assert {"b1"} >= {id_ for each in answer["below"] for id_ in each["answered_by"]}
    second.launch()
    assert console(first, "wait-redundant", "b2", "--wait", "30")["redundant"] is True
