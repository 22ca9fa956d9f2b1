"""What only the commands for a broker need is imported by them alone."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from queryable.console.adopted import on_terminal
from queryable.console.guesses import Guess, Sure

HEAVY = ("confluent_kafka", "pydantic_settings", "numpy", "flask", "rocksdict", "backend.settings")


def test_the_console_is_light() -> None:
    script = "import sys; import queryable.console.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert "queryable.console.check" in done.stdout.split()
    assert not set(HEAVY) & set(done.stdout.split())


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("adopt shop", "confluent_kafka"),
        ("check", "confluent_kafka"),
        ("check", "pydantic_settings"),
    ],
)
def test_what_to_install_is_said(command: str, package: str) -> None:
    script = (
        f"import sys; sys.modules[{package!r}] = None; "
        f"from queryable.console.app import app; app({command.split()})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert f"needs {package}" in done.stderr
    assert "pip install 'queryable-topics[server]'" in done.stderr


def test_a_person_is_asked_until_the_answer_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["sesion", "session", "10 minutes", "10m", "-"])
    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "r") as typed:
            monkeypatch.setattr(sys, "stdin", typed)
            os.write(master, "".join(f"{answer}\n" for answer in answers).encode())
            unsure = Guess("window", Sure.GUESS, "both fit")
            assert on_terminal("t", "store", unsure) == "session"
            assert on_terminal("t", "retention", Guess(None, Sure.GUESS)) == "10m"
            assert on_terminal("t", "window_size", Guess("1h", Sure.GUESS)) == "-"
    finally:
        os.close(master)
    said = capsys.readouterr()
    assert said.out == ""
    assert "sesion is none of key-value, window, session, versioned" in said.err
    assert "is no duration" in said.err
