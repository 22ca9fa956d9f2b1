"""What the console starts from a checkout; the stack itself is tested where it is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from queryable import BadUse
from queryable.console import stack
from queryable.console.exits import WRONG_USE


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "queryable", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_arguments_and_status_are_passed_on() -> None:
    helped = run("bench", "--help")
    assert helped.returncode == 0
    assert "python -m bench --only reads" in helped.stdout
    refused = run("bench", "--only", "nothing")
    assert refused.returncode == WRONG_USE
    assert "nothing" in refused.stderr


def test_without_a_checkout_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "CHECKOUT", tmp_path)
    with pytest.raises(BadUse, match="needs a checkout"):
        stack._run("local", ["up"])
