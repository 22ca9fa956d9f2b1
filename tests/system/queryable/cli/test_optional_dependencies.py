"""Packages of the extra [server] are imported only by the commands that need them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "confluent_kafka",
    "pydantic_settings",
    "numpy",
    "flask",
    "rocksdict",
    "backend.instance.settings",
)


def test_import_of_the_tool_is_light() -> None:
    script = "import sys; import queryable.cli.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert "queryable.cli.commands.check" in done.stdout.split()
    assert not set(HEAVY) & set(done.stdout.split())


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("adopt shop", "confluent_kafka"),
        ("check", "confluent_kafka"),
        ("check", "pydantic_settings"),
    ],
)
def test_missing_package_says_what_to_install(command: str, package: str) -> None:
    script = (
        f"import sys; sys.modules[{package!r}] = None; "
        f"from queryable.cli.app import app; app({command.split()})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert f"requires {package}" in done.stderr
    assert "pip install '.[server]'" in done.stderr
