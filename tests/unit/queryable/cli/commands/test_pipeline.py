"""`queryable pipeline`. docs/spark/operations.md has examples with a real job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queryable.cli.commands import pipeline
from queryable.cli.exit_codes import SUCCESS, UNAVAILABLE, USAGE_ERROR
from queryable.cli.output import DocumentOutput
from tests.unit.queryable.cli.commands.running import run
from tests.unit.queryable.client.fake_server import serving

ID = "0" * 32
SENT = {"view": "words", "group": "spark-words", "id": ID, "action": "pause"}


def described(command: str | None = None, **changes: Any) -> dict[str, Any]:
    state = {
        "group": "spark-words", "state": "running", "heard_ago": 5, "error": None, "lag": 1200,
        "staleness": 40, "sources": [{"topic": "texts", "lag": 1200}], "follows_commands": True,
        "command": command, "stats": {"state_rows": 5000, "watermark": 1_795_361_488_000},
    }  # fmt: skip
    return {"name": "words", "pipeline": {**state, **changes}}


@pytest.mark.slow
def test_an_action_waits_until_the_job_has_carried_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [SENT, described(), described("1" * 32), described(ID, state="paused")]
    with serving(lambda r: r.respond(200, answers.pop(0))) as server:
        done = run(server.url, "pipeline", "words", "pause")
        assert (done.exit_code, answers) == (SUCCESS, [])
        assert json.loads(done.stdout)["done"] is True
        assert server.paths == ["/views/words/pipeline", *["/views/words"] * 3]
        monkeypatch.setattr(pipeline, "_CARRIED_OUT_WITHIN_S", 0.0)
        answers += [SENT, described()]
        done = run(server.url, "pipeline", "words", "restart")
        assert done.exit_code == UNAVAILABLE
        assert json.loads(done.stdout)["done"] is False


def test_the_state_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DocumentOutput, "is_for_people", True)
    with serving(lambda r: r.respond(200, described())) as server:
        done = run(server.url, "pipeline", "words")
    assert done.exit_code == SUCCESS
    assert "5,000" in done.stdout
    assert "2026-11-22T15:31:28Z" in done.stdout


def test_a_view_without_a_pipeline_is_an_error() -> None:
    with serving(lambda r: r.respond(200, {"name": "words"})) as server:
        done = run(server.url, "pipeline", "words")
    assert done.exit_code == USAGE_ERROR
    assert "names no pipeline" in done.stderr
