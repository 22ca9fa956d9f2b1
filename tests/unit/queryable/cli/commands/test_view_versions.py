"""Commands about versions of a view. docs/versions.md has examples with real instances."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queryable.cli.commands.switching import view_versions
from queryable.cli.exit_codes import SUCCESS, USAGE_ERROR
from queryable.cli.output import DocumentOutput
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import RequestHandler, serving

CHANGED = {"view": "orders", "current": 2, "previous": 1, "dropped": [], "revision": 3}
ONE = {
    "version": 1, "name": "orders@1", "topic": "orders", "hash": "a", "partitions": 2,
    "replicas": 4, "answerable": 3, "lag": None, "entries": 10, "size_bytes": 1,
    "seconds_left": 7.0, "pipeline": {"group": "g", "state": "running", "lag": 1200},
    "waiting": [{"partition": 1, "instance": "b2", "state": "catching-up", "lag": 5}],
}  # fmt: skip


def status(*current: int | None, revision: int = 3) -> dict[str, Any]:
    return {
        "view": "orders", "current": 2, "previous": 1, "dropped": [], "revision": revision,
        "epoch": "5-1", "versions": [ONE],
        "instances": [
            {"id": f"b{n}", "state": "running", "current": each, "declared": [1, 2]}
            for n, each in enumerate(current, 1)
        ],
    }  # fmt: skip


@pytest.mark.slow
def test_a_switch_waits_until_all_instances_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [CHANGED, status(1, 2), status(1, 2), status(2, 2)]
    with serving(lambda r: r.respond(200, answers.pop(0))) as server:
        done = run(server.url, "switch", "orders@2")
        assert (done.exit_code, answers) == (SUCCESS, [])
        assert json.loads(done.stdout)["behind"] == []
        assert server.paths == ["/views/orders/switch", *["/views/orders/versions"] * 3]
        # it does not wait for ever, nor if someone has made another change
        monkeypatch.setattr(view_versions, "_FOLLOWED_WITHIN_S", 0.1)
        answers += [CHANGED, *[status(1, None)] * 50]
        done = run(server.url, "rollback", "orders")
        assert json.loads(done.stdout)["behind"] == ["b1", "b2"]
        monkeypatch.setattr(view_versions, "_FOLLOWED_WITHIN_S", 60)
        answers[:] = [CHANGED, status(1, 1, revision=4)]
        assert run(server.url, "switch", "orders@2").exit_code == SUCCESS
        assert not answers


@pytest.mark.slow
def test_a_switch_can_wait_until_the_version_is_complete() -> None:
    """It shows what is missing, and ends when waiting does not help any more."""
    refusals: list[Any] = []
    asked: list[Any] = []

    def answer(request: RequestHandler) -> None:
        if request.path == "/views/orders/versions":
            request.respond(200, status(2, 2))
            return
        asked.append(json.loads(request.body))
        if not refusals:
            request.respond(200, CHANGED)
            return
        detail, may_end = refusals.pop(0)
        document = {"code": "version-not-ready", "detail": detail, "status": 409}
        request.respond(409, {**document, "may_end": may_end, "lag": 5, "seconds_left": 2.5})

    with serving(answer) as server:
        refusals += [("It lags.", True), ("It lags.", True), ("It lags less.", True)]
        done = run(server.url, "switch", "orders@2", "--wait")
        assert (done.exit_code, done.stderr) == (
            SUCCESS, "waiting: It lags.\nwaiting: It lags less.\n",
        )  # fmt: skip
        assert [each["wait"] for each in asked] == [30] * 4
        refusals += [("It lags.", True), ("It is paused.", False)]
        done = run(server.url, "switch", "orders@2", "--wait")
        assert done.exit_code == USAGE_ERROR
        assert "It is paused." in done.stderr
        assert "--wait waits" not in done.stderr
        asked.clear()
        refusals.append(("It lags.", True))
        done = run(server.url, "switch", "orders@2")
        assert done.exit_code == USAGE_ERROR
        assert "--wait waits for it." in done.stderr
        assert asked == [{"version": 2, "force": False}]


@pytest.mark.parametrize("name", ["orders", "orders@", "@2", "orders@x", "orders@1@2"])
def test_a_version_must_be_named(name: str) -> None:
    for command in ("switch", "drop"):
        done = run("http://127.0.0.1:1", command, name)
        assert done.exit_code == USAGE_ERROR
        assert "orders@2" in done.stderr


def test_versions_without_a_key_are_those_of_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda r: r.respond(200, status(2, 1, None))) as server:
        done = run(server.url, "versions", "orders")
        assert json.loads(done.stdout) == status(2, 1, None)
        monkeypatch.setattr(DocumentOutput, "is_for_people", True)
        shown = run(server.url, "versions", "orders").stdout
    assert "previous" in shown
    assert "3 of 4" in shown
    assert "orders@1: partition 1 on b2: catching-up, lag 5" in shown
    assert "instance b2: version 1 is current" in shown
    assert "instance b3: unknown (running)" in shown


def test_a_switch_is_done_even_if_nobody_says_who_follows() -> None:
    """Regression: nothing was printed, and the exit code was that of a refused switch."""

    def answer(request: RequestHandler) -> None:
        if request.path == "/views/orders/switch":
            request.respond(200, CHANGED)
        else:
            request.respond(403, {"code": "forbidden", "detail": "No scope.", "status": 403})

    with serving(answer) as server:
        done = run(server.url, "switch", "orders@2")
    assert done.exit_code == SUCCESS
    assert json.loads(done.stdout) == {**CHANGED, "behind": None}
    assert done.stderr == "It is not known which instances follow: No scope.\n"
