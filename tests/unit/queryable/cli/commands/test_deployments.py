"""Commands about deployments of a service, in cases that real ones have only when something is
wrong. tests/system/cluster/test_deployments.py has real ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from queryable.cli.commands.switching import deployments
from queryable.cli.exit_codes import SUCCESS, UNAVAILABLE, USAGE_ERROR
from queryable.cli.output import DocumentOutput
from tests.support.security.tls import Authority
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import RequestHandler, Server, serving, use_tls

INSTANCE = {"id": "b1", "state": "running", "current": "shop-1"}


class Fake:
    """A proxy and the instances of two deployments, all at one address."""

    def __init__(self, server: Server) -> None:
        self.url = self.instances_url = server.url
        self.server = server
        self.service: dict[str, Any] | None = {
            "name": "shop", "current": "shop-1", "previous": None, "revision": 1,
        }  # fmt: skip
        self.in_use = "shop-1"
        self.follows = True
        self.is_proxy = True
        self.ids = ["shop-1", "shop-2"]
        self.views = {"shop-1": ["orders"], "shop-2": ["orders"]}
        self.asked: list[str] = []  # which deployment GET /admin/deployment describes
        server.handle_request_with = self.answer

    def health(self) -> dict[str, Any]:
        scheme, _, address = self.instances_url.partition("://")
        return {
            "service": self.service,
            "application_id": self.in_use,
            "configured": [
                {"address": address, "scheme": scheme, "application_id": id_} for id_ in self.ids
            ],
        }

    def answer(self, request: RequestHandler) -> None:
        if request.path == "/proxy/health":
            if self.is_proxy:
                request.respond(200, self.health())
            else:
                request.respond(404, {"code": "no-such-resource", "status": 404, "detail": "?"})
        elif request.path == "/admin/deployment":
            id_ = self.asked.pop(0)
            request.respond(
                200,
                {
                    "application_id": id_, "service": self.service, "epoch": "1-1",
                    "ready": id_ == "shop-1", "views": self.views[id_], "instances": [INSTANCE],
                    "why_not_ready": None if id_ == "shop-1" else "view orders: it lags",
                },
            )  # fmt: skip
        else:
            _, _, _, id_, _ = request.path.split("/")
            assert self.service is not None
            self.service = {
                **self.service, "current": id_, "previous": self.service["current"],
                "revision": self.service["revision"] + 1,
            }  # fmt: skip
            if self.follows:
                self.in_use = id_
            request.respond(200, self.service)

    def run(self, *arguments: str) -> Result:
        return run(self.url, *arguments)


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serving(lambda _: None) as server:
        yield Fake(server)


def test_the_table_shows_which_one_is_current_and_ready(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DocumentOutput, "is_for_people", True)
    fake.asked = ["shop-1", "shop-2"]
    shown = fake.run("deployments").stdout
    assert "current" in shown
    assert "no: view orders: it lags" in " ".join(shown.split())
    fake.ids = []
    assert "knows no deployment yet" in fake.run("deployments").stdout


def test_a_switch_and_the_way_back(fake: Fake) -> None:
    fake.asked = ["shop-2", "shop-1"]
    done = fake.run("switch-deployment", "shop-2")
    assert done.exit_code == SUCCESS, done.output
    assert json.loads(done.stdout) == {
        "name": "shop", "current": "shop-2", "previous": "shop-1", "revision": 2, "followed": True,
    }  # fmt: skip
    fake.asked = ["shop-2"]
    done = fake.run("rollback-deployment")
    assert json.loads(done.stdout)["current"] == "shop-1"


def test_a_proxy_that_does_not_follow_is_reported(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "_FOLLOWED_WITHIN_S", 0.1)
    fake.follows = False
    done = fake.run("switch-deployment", "shop-2", "--force")
    assert done.exit_code == UNAVAILABLE
    assert json.loads(done.stdout)["followed"] is False
    assert "does not follow yet" in done.stderr


def test_missing_views_are_named(fake: Fake) -> None:
    fake.views["shop-1"] = ["orders", "visits"]
    fake.asked = ["shop-2", "shop-1"]
    done = fake.run("switch-deployment", "shop-2")
    assert done.exit_code == USAGE_ERROR
    assert "does not have the views visits of shop-1" in done.stderr
    assert fake.in_use == "shop-1"


@pytest.mark.slow
def test_what_a_user_may_have_forgotten_is_said(fake: Fake) -> None:
    done = fake.run("switch-deployment", "shop-3")
    assert done.exit_code == USAGE_ERROR
    assert "It knows: shop-1, shop-2." in done.stderr
    fake.asked = ["shop-1"]
    assert "There is no previous deployment" in fake.run("rollback-deployment").stderr
    fake.service, fake.asked = None, ["shop-1"]
    assert "There is no previous deployment" in fake.run("rollback-deployment").stderr
    fake.is_proxy = False
    for command in (["deployments"], ["switch-deployment", "shop-2"], ["rollback-deployment"]):
        done = fake.run(*command)
        assert done.exit_code == USAGE_ERROR
        assert "The URL is that of an instance." in done.stderr


def test_a_proxy_that_does_not_answer_after_the_change_is_reported(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "_FOLLOWED_WITHIN_S", 0.1)
    answer = fake.answer

    def silent(request: RequestHandler) -> None:
        if request.path == "/proxy/health" and fake.in_use == "shop-2":
            request.respond(503, {"code": "overloaded", "status": 503, "detail": "Too many."})
        else:
            answer(request)

    fake.server.handle_request_with = silent
    done = fake.run("switch-deployment", "shop-2", "--force", "--timeout", "1")
    assert done.exit_code == UNAVAILABLE
    assert json.loads(done.stdout)["followed"] is False
    assert "The proxy does not answer" in done.stderr


@pytest.mark.slow
def test_a_token_for_an_https_url_is_never_sent_by_http(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    use_tls(fake.server, authority)
    fake.url, fake.asked = fake.server.url, ["shop-2", "shop-1"]
    monkeypatch.setenv("QUERYABLE_CA_FILE", str(authority.ca))
    monkeypatch.setenv("QUERYABLE_TOKEN", "a.b.c")
    with serving(RequestHandler.hang_up) as plain:
        fake.instances_url = plain.url
        done = fake.run("switch-deployment", "shop-2", "--force")
        assert plain.paths == []
    assert done.exit_code == USAGE_ERROR
    assert "not sent in clear text" in done.stderr
    fake.instances_url = fake.url
    done = fake.run("switch-deployment", "shop-2")
    assert done.exit_code == SUCCESS, done.output
