"""Runs of pytest in which a test hangs: each run ends, names the test, and runs the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.settings import REPOSITORY
from local.waiting import stretch
from tests.support.plugins import watchdog

FINE = "def test_fine():\n    pass\n"
SLEEPS = "import time\ndef test_before(): pass\ndef test_hangs(): time.sleep(600)\n"
# A deadlock in C while it holds the interpreter lock. No signal handler and no thread can run.
IN_C = """
import ctypes
def test_before(): pass
def test_hangs():
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)
def test_after(): pass
"""


def run(folder: Path, files: dict[str, str], **ini: object) -> tuple[int, str]:
    """The exit code and the output of pytest with two workers."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (folder / name).write_text(text)
    command = [
        sys.executable, "-m", "pytest", str(folder), "-n", "2", "--dist", "loadfile",
        "-p", "tests.support.plugins.scheduling", "-p", "tests.support.plugins.watchdog",
        "-p", "no:cacheprovider",
        "-c", str(folder / "pytest.ini"), "--rootdir", str(folder),
    ]  # fmt: skip
    for name, value in ini.items():
        command += ["-o", f"{name}={value}"]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_hanging_test_fails_and_the_others_run(tmp_path: Path) -> None:
    files = {"test_one.py": SLEEPS + "def test_after(): pass\n", "test_two.py": FINE}
    status, output = run(tmp_path, files, timeout=2, timeout_method="signal")
    assert status == 1
    assert "FAILED test_one.py::test_hangs" in output
    assert "1 failed, 3 passed" in output
    assert "node down" not in output


@pytest.mark.parametrize("after", ["def test_after(): pass\n", ""])
def test_a_worker_that_ignores_signals_is_replaced(tmp_path: Path, after: str) -> None:
    files = {
        "test_one.py": IN_C.replace("def test_after(): pass\n", after),
        "test_two.py": FINE,
        "test_three.py": FINE,
    }
    limits = {"faulthandler_timeout": 3, "faulthandler_exit_on_timeout": "true"}
    status, output = run(tmp_path, files, timeout=1, timeout_method="signal", **limits)
    assert status == 1
    assert "FAILED test_one.py::test_hangs" in output
    assert f"1 failed, {3 + bool(after)} passed" in output
    assert output.count("node down") == 1
    assert 'test_one.py", line 7 in test_hangs' in output  # the stack


def test_a_run_without_events_ends(tmp_path: Path) -> None:
    silence = 5 * stretch()  # the workers take that long to start
    status, output = run(tmp_path, {"test_one.py": SLEEPS, "test_two.py": FINE}, silence=silence)
    assert status == 1
    assert "the run ends. Still running:\n  test_one.py::test_hangs, for" in output


def test_the_run_ends_even_if_a_worker_has_just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    ended: list[int] = []
    monkeypatch.setattr(watchdog, "_children", lambda: [gone.pid])
    monkeypatch.setattr(os, "_exit", ended.append)
    watchdog.Watchdog(1)._end_run(2)
    assert ended == [1]


def test_processes_started_by_a_test_can_be_interrupted(tmp_path: Path) -> None:
    text = (
        "import signal, subprocess, sys\n"
        "def test_it():\n"
        "    command = [sys.executable, '-c', 'import signal; print(); signal.pause()']\n"
        "    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:\n"
        "        child.stdout.readline()\n"
        "        child.send_signal(signal.SIGINT)\n"
        "        assert child.wait(10) == -signal.SIGINT\n"
    )
    (tmp_path / "test_one.py").write_text(text)
    # nohup, `&` in a script and some runners start it like this
    command = (
        f"trap '' INT; {sys.executable} -m pytest -n 1 -p tests.support.plugins.watchdog "
        f"-p no:cacheprovider --rootdir {tmp_path} -c /dev/null {tmp_path}/test_one.py"
    )
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
