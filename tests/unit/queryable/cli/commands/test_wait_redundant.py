"""`queryable wait-redundant`. tests/system/cluster/test_maintenance_commands.py has real
instances."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queryable.cli.exit_codes import SUCCESS, UNAVAILABLE
from queryable.cli.output import DocumentOutput
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import serving


def document(*answered_by: list[str], known: bool = True, running: str = "b1 b2") -> dict[str, Any]:
    """Of the admin page: the instances that answer for each partition of a view."""
    return {
        "known": known,
        "instances": [
            {"id": name, "state": "running" if name in running else "lost", "in_topology": True}
            for name in ("b1", "b2")
        ],
        "views": [
            {
                "name": "orders",
                "replicas": 2,
                "placement": [
                    {"partition": number, "answered_by": ids}
                    for number, ids in enumerate(answered_by)
                ],
            }
        ],
    }


BOTH = ["b1", "b2"]


@pytest.mark.slow
def test_it_waits_until_every_partition_has_its_replicas() -> None:
    answers = [document(BOTH, []), document(BOTH, ["b1"]), document(BOTH, BOTH)]
    with serving(lambda r: r.respond(200, answers.pop(0))) as server:
        done = run(server.url, "wait-redundant")
        assert (done.exit_code, answers) == (SUCCESS, [])
        assert server.paths == ["/admin/topology.json"] * 3
    assert json.loads(done.stdout)["redundant"] is True


@pytest.mark.slow
def test_a_deployment_that_does_not_answer_for_a_moment() -> None:
    answers = [(503, {"code": "no-topology", "status": 503}), (200, document(BOTH))]
    with serving(lambda r: r.respond(*answers.pop(0))) as server:
        assert run(server.url, "wait-redundant").exit_code == SUCCESS
        assert answers == []


@pytest.mark.parametrize(
    ("found", "names", "missing"),
    [
        (document(BOTH, ["b2"]), [], "view orders, partition 1: 1 of 2 replicas answer (b2)"),
        (document([], BOTH), [], "view orders, partition 0: 0 of 2 replicas answer"),
        (document(), [], "view orders has no partitions: its topic does not exist"),
        (document(BOTH, running="b1"), ["b2"], "b2 does not run in this deployment"),
        (document(BOTH), ["b1", "b7"], "b7 does not run in this deployment"),
        (document(BOTH, known=False), [], "the instance that was asked does not know"),
    ],
)
def test_what_is_missing_after_the_wait(
    found: dict[str, Any], names: list[str], missing: str
) -> None:
    with serving(lambda r: r.respond(200, found)) as server:
        done = run(server.url, "wait-redundant", *names, "--wait", "0")
    assert done.exit_code == UNAVAILABLE
    assert json.loads(done.stdout)["redundant"] is False
    assert done.stderr.startswith(missing)
    assert len(done.stderr.splitlines()) == 1


def test_an_instance_that_nobody_asks_for_may_be_missing() -> None:
    with serving(lambda r: r.respond(200, document(BOTH, running="b1"))) as server:
        assert run(server.url, "wait-redundant", "b1").exit_code == SUCCESS


def test_what_a_terminal_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DocumentOutput, "is_for_people", True)
    answers = [document(BOTH, BOTH), document(*[[]] * 30)]
    with serving(lambda r: r.respond(200, answers.pop(0))) as server:
        assert run(server.url, "wait-redundant").stdout == "All 2 partitions have their replicas.\n"
        failed = run(server.url, "wait-redundant", "--wait", "0")
    assert failed.stdout == ""
    assert failed.stderr.splitlines()[20:] == ["… and 10 more"]
