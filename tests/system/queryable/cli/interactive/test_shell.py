"""`queryable shell` on a terminal: completion, history, errors and Ctrl-C."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from local.settings import REPOSITORY
from queryable.cli.app import app
from queryable.cli.history import Entry, add_to_history, read_history
from queryable.cli.shell.completion import Completer
from tests.support.clients.scripted_transport import ORDERS
from tests.system.queryable.terminal import Terminal
from tests.unit.queryable.client.fake_server import RequestHandler, Server, serving

KEYS = ["alpha", "alps", "be ta"]


def answer(request: RequestHandler) -> None:
    path = request.path
    if path == "/views":
        request.respond(200, {"views": [ORDERS]})
    elif path.startswith("/views/orders/keys?"):
        prefix = path.partition("prefix=")[2].partition("&")[0]
        items = [{"key": key, "value": 1} for key in KEYS if key.startswith(prefix)]
        request.respond(200, {"items": items, "next": None})
    elif path == "/views/orders/keys/alpha":
        request.respond(200, {"key": "alpha", "value": {"n": 7}})
    else:
        problem = {"code": "view-not-found", "detail": "No such view.", "status": 404}
        request.respond(404, problem)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(answer) as running:
        yield running


def environment(server: Server, state: Path) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name[:10] != "QUERYABLE_"}
    mine = {"QUERYABLE_CONFIG": "/dev/null", "XDG_STATE_HOME": str(state)}
    return {**plain, **mine, "PYTHONPATH": str(REPOSITORY), "INPUTRC": "/dev/null"}


def test_a_session(server: Server, tmp_path: Path) -> None:
    env = environment(server, tmp_path)
    command = [sys.executable, "-m", "queryable", "--url", server.url, "shell"]
    with Terminal(command, env, columns=80) as terminal:
        prompts = 0

        def prompt() -> str:
            nonlocal prompts
            prompts += 1
            return terminal.wait_for(lambda text: text.count("queryable> ") >= prompts)

        prompt()
        # the command, the view and the common part of the keys are completed
        terminal.send_keys("ge\tord\talp\t")
        terminal.wait_for(lambda text: "get orders alp" in text)
        terminal.send_keys("h\t\n")
        terminal.wait_for(lambda text: '{"n": 7}' in text or ".n" in text)
        prompt()
        terminal.send_keys("gett orders alpha\n")
        assert "Did you mean get?" in prompt()
        terminal.send_keys("get nothing alpha\n")
        assert "No such view. [view-not-found]" in prompt()
        terminal.send_keys("get 'alpha\n")
        assert "No closing quotation" in prompt()
        terminal.send_keys("output json\n")
        prompt()
        terminal.send_keys("get orders alpha\n")
        assert '{"key":"alpha","value":{"n":7}}' in prompt()
        terminal.interrupt()
        prompt()
        terminal.send_keys("help\n")
        assert "Tab completes" in prompt()
        terminal.send_keys("\x04")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.text
    history = tmp_path / "queryable" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert [(each.command, each.status) for each in read_history(history)] == [
        ("get orders alpha", 0), ("gett orders alpha", 2), ("get nothing alpha", 2),
        ("get 'alpha", 2), ("output json", 0), ("get orders alpha", 0), ("help", 0),
    ]  # fmt: skip
    listed = subprocess.run(
        [sys.executable, "-m", "queryable", "queries", "orders", "--limit", "1"],
        env=env, capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    assert json.loads(listed)["command"] == "get orders alpha"


def test_commands_from_a_file(server: Server, tmp_path: Path) -> None:
    script = "get orders alpha\n\nqueryable get orders alpha\nget nothing b\n"
    done = subprocess.run(
        [sys.executable, "-m", "queryable", "shell", "--url", server.url],
        env=environment(server, tmp_path), input=script, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2, "of the last command"
    assert done.stdout == '{"key":"alpha","value":{"n":7}}\n' * 2
    assert not (tmp_path / "queryable").exists(), "only what was typed is kept"


@pytest.mark.parametrize(
    ("before", "word", "found"),
    [
        ("", "g", ["get "]),
        ("", "exi", ["exit "]),
        ("get ", "or", ["orders "]),
        ("get --json ", "o", ["orders "]),
        ("help ", "cou", ["count "]),
        ("output ", "j", ["json "]),
        ("get orders ", "al", ["alpha ", "alps "]),
        ("get orders ", "", ["alpha ", "alps ", "'be ta' "]),
        ("get orders alpha ", "b", ["'be ta' "]),
        ("watch orders ", "alp", ["alpha ", "alps "]),
        ("count orders ", "a", []),
        ("fields ", "o", ["orders "]),
        ("fields orders ", "--s", ["--sample ", "--schema-registry "]),
        ("get words ", "a", []),
        ("get orders ", "--j", ["--json "]),
        ("scan ", "--l", ["--limit "]),
        ("get orders alpha --stale ", "n", ["never "]),
        ("scan orders --order ", "", ["asc ", "desc "]),
        ("scan orders --limit ", "", []),
        ("pipeline orders ", "re", ["resume ", "restart ", "rebuild "]),
        ("serve ", "o", []),
        ("get 'orders ", "a", []),
        ("nothing ", "a", []),
    ],
)
def test_completion(server: Server, before: str, word: str, found: list[str]) -> None:
    completer = Completer(get_command(app), ["--url", server.url])
    assert completer.complete(before, word) == found


def test_completion_without_an_answer() -> None:
    completer = Completer(get_command(app), ["--url", "http://127.0.0.1:9"])
    assert completer.complete("get ", "") == []
    assert completer.complete("get orders ", "") == []


def test_the_history_is_bounded_and_survives_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "history"
    assert read_history(path) == []
    monkeypatch.setattr("queryable.cli.history._MAX_BYTES", 1000)
    entries = [Entry(n, f"get orders {n}", 0, 0.5) for n in range(100)]
    for entry in entries:
        add_to_history(path, entry)
    assert path.stat().st_size < 1500
    kept = read_history(path)
    assert kept == entries[-len(kept) :]
    with path.open("a") as file:
        file.write('not JSON\n{"time": 1}\n[1]\n\xff\n')
    assert read_history(path) == kept
    add_to_history(tmp_path / "folder" / "history" / "impossible", entries[0])
