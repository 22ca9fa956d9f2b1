"""Commands that run a module of the checkout; the stack has its own tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backend.instance.settings import Settings
from queryable import BadUse
from queryable.cli.commands import stack
from queryable.cli.exit_codes import USAGE_ERROR


def run(
    *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "queryable", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(stack.CHECKOUT), **environment},
    )


def test_arguments_and_exit_code_are_passed_through() -> None:
    helped = run("bench", "--help")
    assert helped.returncode == 0
    assert "python -m bench --only reads" in helped.stdout
    assert "pipelines, latency" in " ".join(helped.stdout.split())
    assert max(map(len, helped.stdout.splitlines())) <= 80
    refused = run("bench", "--only", "nothing")
    assert refused.returncode == USAGE_ERROR
    assert "nothing" in refused.stderr


def test_error_without_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "CHECKOUT", tmp_path)
    with pytest.raises(BadUse, match="requires a checkout"):
        stack._run("local", ["up"])


def test_relative_paths_of_settings_are_those_of_the_folder_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "my-views.toml").write_text("not TOML")
    own = {"QUERYABLE_VIEWS": "my-views.toml", "QUERYABLE_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    done = run("up", folder=tmp_path, **own)
    assert done.returncode != 0
    assert f"{tmp_path}/my-views.toml" in done.stderr
    assert "No such file" not in done.stderr

    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    done = run("up", folder=tmp_path, QUERYABLE_RUN_DIR="used")
    assert f"{tmp_path}/used is not empty" in done.stderr

    done = run("up", folder=tmp_path, QUERYABLE_SPARK_VIEWS="visits, mine.py:VIEW,views/")
    assert f"{tmp_path}/mine.py" in done.stderr


def test_all_paths_of_settings_are_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = {
        f"QUERYABLE_{name}".upper()
        for name, field in Settings.model_fields.items()
        if name.endswith("_file") or field.annotation is Path
    }
    assert "QUERYABLE_JWT_KEY_FILE" in paths
    for name in (*paths, "QUERYABLE_AUDIT_LOG", "QUERYABLE_JWT_JWKS"):
        assert stack._absolute({name: "key.pub"}) == {name: f"{tmp_path}/key.pub"}
    assert stack._absolute({"QUERYABLE_JWT_JWKS": "https://issuer/jwks"}) == {}
    assert stack._absolute({"QUERYABLE_JWT_KEY_FILE": ""}) == {}


def test_the_program_gets_the_signals_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "Makefile").touch()
    (tmp_path / "program.py").write_text(
        "import signal, sys, time\n"
        "def end(number, _):\n"
        "    print(signal.Signals(number).name, flush=True)\n"
        "    sys.exit(7)\n"
        "for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, end)\n"
        "print('up', flush=True)\n"
        # a signal just before `signal.pause` would not end that
        "while True: time.sleep(0.05)\n"
    )
    start = (
        "from pathlib import Path; from queryable.cli.commands import stack\n"
        f"stack.CHECKOUT = Path({str(tmp_path)!r}); stack._run('program', [])"
    )
    for number in (signal.SIGTERM, signal.SIGHUP):
        with subprocess.Popen(
            [sys.executable, "-c", start], stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as command:
            assert command.stdout is not None
            try:
                assert command.stdout.readline() == "up\n"
                command.send_signal(number)
                assert command.wait(20) == 7
                assert command.stdout.readline() == f"{number.name}\n"
            finally:
                if command.poll() is None:
                    os.killpg(command.pid, signal.SIGKILL)
