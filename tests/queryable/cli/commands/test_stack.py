"""Commands that run a module of the checkout; the stack has its own tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from queryable import BadUse
from queryable.cli.commands import stack
from queryable.cli.exit_codes import USAGE_ERROR


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "queryable", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_arguments_and_exit_code_are_passed_through() -> None:
    helped = run("bench", "--help")
    assert helped.returncode == 0
    assert "python -m bench --only reads" in helped.stdout
    refused = run("bench", "--only", "nothing")
    assert refused.returncode == USAGE_ERROR
    assert "nothing" in refused.stderr


def test_error_without_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "CHECKOUT", tmp_path)
    with pytest.raises(BadUse, match="requires a checkout"):
        stack._run("local", ["up"])
