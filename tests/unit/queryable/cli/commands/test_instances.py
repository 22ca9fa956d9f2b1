"""`queryable drain`, `undrain` and `rebuild`. docs/console-operations.md has examples with real
instances."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from queryable.cli.exit_codes import SUCCESS, UNAVAILABLE
from queryable.cli.output import DocumentOutput
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import RequestHandler, serving

DRAINED = {"instance": "b1", "drained": True}
REBUILT = {"instance": "b1", "view": "orders", "partition": 3}
DRAIN, REBUILD = "/admin/instances/b1/drain", "/admin/instances/b1/rebuild"


def topology(active: list[int], standby: list[int]) -> dict[str, Any]:
    def instance(id_: str, active: list[int], standby: list[int]) -> dict[str, Any]:
        return {
            "id": id_, "host": "127.0.0.1", "port": 1, "state": "running",
            "topicPartitions": {"orders": active}, "standbyPartitions": {"orders": standby},
        }  # fmt: skip

    view = {"partitions": 4, "partitioner": "murmur2"}
    processors = [instance("b1", active, standby), instance("b2", [0, 1, 2, 3], [])]
    return {"epoch": "5-1", "processors": processors, "views": {"orders": view}}


@pytest.mark.slow
def test_drain_waits_until_the_instance_has_no_partition() -> None:
    answers = [DRAINED, topology([1, 2], [3]), topology([], [3]), topology([], [])]
    with serving(lambda r: r.respond(200, answers.pop(0))) as server:
        done = run(server.url, "drain", "b1")
        assert (done.exit_code, answers) == (SUCCESS, [])
        assert json.loads(done.stdout) == {**DRAINED, "partitions": 0}
        assert server.paths == [DRAIN, *["/processors"] * 3]


def test_drain_says_how_many_partitions_are_left_after_the_wait() -> None:
    answers = [DRAINED, topology([1, 2], [3])]
    with serving(lambda r: r.respond(200, answers.pop(0))) as server:
        done = run(server.url, "drain", "b1", "--wait", "0")
    assert done.exit_code == UNAVAILABLE
    assert json.loads(done.stdout)["partitions"] == 3
    assert "b1 still has 3 partitions" in done.stderr


@pytest.mark.slow
def test_an_instance_that_leaves_before_it_is_drained() -> None:
    gone = topology([], [])
    gone["processors"].pop(0)
    answers = [DRAINED, topology([1, 2], [3]), gone]
    with serving(lambda r: r.respond(200, answers.pop(0))) as server:
        done = run(server.url, "drain", "b1")
    assert (done.exit_code, done.stdout) == (UNAVAILABLE, "")
    assert "b1 left the deployment before" in done.stderr


def test_undrain_is_sent_once_for_any_id() -> None:
    with serving(lambda r: r.respond(200, {"instance": "b/1", "drained": False})) as server:
        assert run(server.url, "undrain", "b/1").exit_code == SUCCESS
        assert server.paths == ["/admin/instances/b%2F1/undrain"]


def test_what_a_terminal_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DocumentOutput, "is_for_people", True)
    answers = [DRAINED, topology([], []), {**DRAINED, "drained": False}, REBUILT]
    with serving(lambda r: r.respond(200, answers.pop(0))) as server:
        shown = [
            run(server.url, *command).stdout
            for command in (
                ("drain", "b1"),
                ("undrain", "b1"),
                ("rebuild", "b1", "orders", "3", "--yes"),
            )
        ]
    assert shown == [
        "b1 has no partition left. You can stop it.\n",
        "b1 takes part again.\n",
        "Partition 3 of orders is being rebuilt on b1.\n",
    ]


@pytest.mark.slow
def test_drain_goes_on_waiting_while_the_deployment_does_not_answer() -> None:
    began = time.monotonic()

    def answer(request: RequestHandler) -> None:
        if request.path == DRAIN:
            request.respond(200, DRAINED)
        elif time.monotonic() - began < 3:
            request.respond(503, {"code": "starting", "detail": "Starting.", "status": 503})
        else:
            request.respond(200, topology([], []))

    with serving(answer) as server:
        done = run(server.url, "drain", "b1", "--timeout", "1", "--wait", "60")
    assert done.exit_code == SUCCESS, done.stderr
    assert json.loads(done.stdout)["partitions"] == 0
