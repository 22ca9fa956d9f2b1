"""Output that cannot be written, questions next to a pipe, and input that ends or is not text."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.settings import REPOSITORY
from queryable.cli import answers, app
from queryable.cli.adopt.prompts import ask_on_terminal
from queryable.cli.exit_codes import SUCCESS, UNAVAILABLE, USAGE_ERROR
from queryable.cli.history import Entry, add_to_history, read_history
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.client.protocol.errors import BadUse
from tests.support.clients.scripted_transport import ORDERS
from tests.unit.queryable.client.fake_server import RequestHandler, Server, serving

VALUE = 'é𝄞"\ud800'


def answer(request: RequestHandler) -> None:
    if request.path == "/views":
        request.respond(200, {"views": [ORDERS]})
    else:
        request.respond(200, json.dumps({"key": "a", "value": {"n": VALUE}}).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(answer) as running:
        yield running


def run(server: Server, script: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """`script`: for a shell, in which `queryable` is the command."""
    plain = {name: value for name, value in os.environ.items() if name[:10] != "QUERYABLE_"}
    mine = {
        "QUERYABLE_URL": server.url,
        "QUERYABLE_CONFIG": "/dev/null",
        "PYTHONPATH": str(REPOSITORY),
    }
    command = f'queryable() {{ {sys.executable} -m queryable "$@"; }}; {script}'
    return subprocess.run(
        ["bash", "-c", command], env={**plain, **mine, **more}, capture_output=True, timeout=60
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("output", ["--json", "--vertical"])
def test_characters_that_the_encoding_does_not_have_are_escaped(
    server: Server, encoding: str, output: str
) -> None:
    done = run(server, f"queryable get orders a {output}", PYTHONIOENCODING=encoding)
    assert done.returncode == SUCCESS, done.stderr
    text = done.stdout.decode(encoding)
    if output == "--json":
        assert json.loads(text) == {"key": "a", "value": {"n": VALUE}}
    assert (r"\ud834\udd1e" in text) == (encoding != "utf-8")


def test_output_that_cannot_be_written_is_an_error(server: Server) -> None:
    done = run(server, "queryable views > /dev/full")
    assert done.returncode == UNAVAILABLE
    assert done.stderr.decode() == "queryable: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    ("typed", "expected"), [("what\nY\n", True), ("yes\n", True), ("\n", False), ("n\n", False)]
)
def test_a_question_is_on_stderr(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    expected: bool,
) -> None:
    """Stdout may be a pipe, in which nobody would see it."""
    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "r") as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            os.write(master, typed.encode())
            assert answers.is_confirmed("Delete it?") is expected
    finally:
        os.close(master)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("Delete it? [y/N]: ")


def test_the_end_of_the_input_confirms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setattr(answers, "is_interactive", lambda: True)
    assert not answers.is_confirmed("Delete it?")


@pytest.mark.parametrize("default", ["key-value", None])
def test_the_end_of_the_input_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, default: str | None
) -> None:
    """Regression: it accepted the guess, or asked for ever."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(BadUse, match="--yes"):
        ask_on_terminal("t", "store", Inference(default, Confidence.GUESS))


@pytest.mark.parametrize("script", ["get orders a >&-", "get orders a 2>&-", "shell <&-"])
def test_closed_streams(server: Server, script: str) -> None:
    done = run(server, f"queryable {script}")
    assert done.returncode == SUCCESS, done.stderr
    assert done.stderr == b""


@pytest.mark.parametrize(
    "arguments",
    ["get V a", "top orders --by V", "drain V", "pipeline V", "views --url http://V"],
)
def test_arguments_that_are_not_utf_8(server: Server, arguments: str) -> None:
    done = run(server, f"queryable {arguments}".replace("V", r"$'\xff'"))
    assert done.returncode == USAGE_ERROR
    assert b"Traceback" not in done.stderr
    assert rb"\udcff" in done.stderr


def test_an_unexpected_error_is_not_taken_for_a_missing_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "app", {}.popitem)
    with pytest.raises(SystemExit) as raised:
        app.main()
    assert raised.value.code == UNAVAILABLE
    assert "KeyError" in capsys.readouterr().err


def test_the_shell_prints_after_a_command_that_failed(server: Server) -> None:
    """Regression: an error of the system closed the output of all later commands."""
    name = "x" * 300  # longer than file systems allow
    script = f"get orders a\\ntoken metrics --key-file {name}\\nget orders a\\n"
    done = run(server, f"printf '{script}' | queryable shell")
    assert done.stdout.count(b'{"key":"a"') == 2
    assert b"File name too long" in done.stderr
    assert done.returncode == SUCCESS, "of the last command"
    script = f"token metrics --key-file {name}\\n"
    done = run(server, f"printf '{script}' | queryable shell")
    assert done.returncode == UNAVAILABLE


def test_a_line_of_the_shell_that_is_not_text(server: Server) -> None:
    strict = {"PYTHONIOENCODING": "utf-8:strict"}
    done = run(server, r"printf 'views\nget \xff\nviews\n' | queryable shell", **strict)
    assert done.returncode == USAGE_ERROR
    assert b"Traceback" not in done.stderr
    assert b"the line is not utf-8 text" in done.stderr


def test_a_command_that_is_not_text_is_in_the_history(tmp_path: Path) -> None:
    entry = Entry(1, "get orders \udcff", 0, 0.5)
    add_to_history(tmp_path / "history", entry)
    assert read_history(tmp_path / "history") == [entry]
