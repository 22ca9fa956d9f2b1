"""Commands that ask before they do something that cannot be undone, and refusals."""

from __future__ import annotations

import pytest

from queryable.cli import answers
from queryable.cli.exit_codes import NOT_FOUND, SUCCESS, USAGE_ERROR
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import RequestHandler, serving

STATE = {"group": "g", "state": "running", "command": "0", "error": None, "stats": {}}
QUESTIONS = [
    (
        "rebuild b1 orders 3", "/admin/instances/b1/rebuild",
        "Delete the store of partition 3 of orders on b1",
    ),
    (
        "rebuild b1 orders 3 --force", "/admin/instances/b1/rebuild",
        "Delete the store of partition 3 of orders on b1",
    ),
    (
        "pipeline words rebuild", "/views/words/pipeline",
        "Results of records that they no longer have are lost",
    ),
    (
        "drop orders@1", "/views/orders/drop",
        "Delete the stores of orders@1 in the whole deployment?",
    ),
    ("drop orders@1 --delete-topic", "/views/orders/drop", "orders@1 and its topic in"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("command", "path", "question"), QUESTIONS)
def test_it_asks_first(
    monkeypatch: pytest.MonkeyPatch, command: str, path: str, question: str
) -> None:
    def answer(request: RequestHandler) -> None:
        request.respond(200, {"name": "words", "id": "0", "pipeline": STATE})

    with serving(answer) as server:
        done = run(server.url, *command.split())
        assert (done.exit_code, "--yes" in done.stderr) == (USAGE_ERROR, True)
        monkeypatch.setattr(answers, "is_interactive", lambda: True)
        done = run(server.url, *command.split(), input="n\n")
        assert (done.exit_code, server.paths) == (NOT_FOUND, [])
        assert question in done.stderr
        assert "nothing was done" in done.stderr
        assert run(server.url, *command.split(), input="y\n").exit_code == SUCCESS
        assert run(server.url, *command.split(), "--yes").exit_code == SUCCESS
        assert server.paths.count(path) == 2


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("drain b1", "last-instance"),
        ("pipeline words pause", "pipeline-stopped"),
        ("switch orders@2", "version-not-ready"),
    ],
)
def test_a_refusal_says_why(command: str, code: str) -> None:
    def refuse(request: RequestHandler) -> None:
        request.respond(409, {"code": code, "detail": "It lags.", "status": 409})

    with serving(refuse) as server:
        done = run(server.url, *command.split())
    assert done.exit_code == USAGE_ERROR
    assert f"It lags. [{code}]" in done.stderr
