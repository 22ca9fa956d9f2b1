"""`queryable indexes`: the indexes of a view, and which replicas have built them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from queryable.cli.exit_codes import NOT_FOUND, SUCCESS
from tests.support.clients.scripted_transport import ORDERS
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import RequestHandler, Server, serving


@contextmanager
def view_with(indexes: dict[str, list[str]], *building: list[str] | None) -> Iterator[Server]:
    """A server of the view `late`; `building`: what each replica reports."""
    view = {**ORDERS, "name": "late", "indexes": indexes}
    replicas = [{"id": f"b{n}", "building": names} for n, names in enumerate(building)]
    topology: dict[str, Any] = {
        "made_at": 0,
        "views": [{"name": "late", "placement": [{"partition": 0, "replicas": replicas}]}],
    }

    def answer(request: RequestHandler) -> None:
        is_view = request.path.partition("@")[0] == "/views/late"
        request.respond(200, view if is_view else topology)

    with serving(answer) as server:
        yield server


INDEXES = {"by-dest": ["dest"], "by-route": ["dest", "delay"]}


def test_replicas_that_have_built_an_index_are_counted() -> None:
    with view_with(INDEXES, [], ["by-route"], None) as server:
        done = run(server.url, "indexes", "late", "--json")
    assert done.exit_code == SUCCESS, done.output
    assert json.loads(done.stdout) == {
        "name": "late",
        "indexes": [
            {"index": "by-dest", "fields": ["dest"], "built": 2, "replicas": 3},
            {"index": "by-route", "fields": ["dest", "delay"], "built": 1, "replicas": 3},
        ],
    }


def test_a_view_without_indexes() -> None:
    with view_with({}, []) as server:
        done = run(server.url, "indexes", "late")
    assert done.exit_code == NOT_FOUND
    assert "view late has no index" in done.stderr
