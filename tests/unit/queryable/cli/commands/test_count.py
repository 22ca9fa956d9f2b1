"""The number of entries of a view with so many that it is an estimate."""

from __future__ import annotations

import json

import pytest

from queryable.cli.output import DocumentOutput
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import serving

ESTIMATE = {"count": 1_310_720, "exact": False, "estimate": True}


@pytest.mark.parametrize("is_for_terminal", [True, False])
def test_an_estimate_is_called_one(monkeypatch: pytest.MonkeyPatch, is_for_terminal: bool) -> None:
    monkeypatch.setattr(DocumentOutput, "is_for_people", is_for_terminal)
    with serving(lambda request: request.respond(200, ESTIMATE)) as server:
        done = run(server.url, "count", "orders")
    if is_for_terminal:
        assert done.stdout == "about 1,310,720\n"
        assert done.stderr == "an estimate; use --exact to count every entry\n"
    else:
        assert json.loads(done.stdout) == ESTIMATE
