"""The specs of the Lua modules, and the rules of proxy/README.md."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "proxy").rglob("*.lua"))
PURE = (
    "partitioner",
    "key_codec",
    "security/browser_rules",
    "query",
    "security/quota",
    "topology",
    "passive_health",
    "retry_budget",
    "reads/point_batch",
    "telemetry/buckets",
    "telemetry/clock",
    "telemetry/labels",
)
HOT = ("route", "balance", "log", "reads/point_reads", "reads/coalescer", "reads/point_batch")


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_specs_pass_under_luajit() -> None:
    busted = shutil.which("busted")
    assert busted is not None, "busted is not installed (lua-busted)"
    # busted itself may use any Lua; nginx runs LuaJIT, whose bit operations the modules use
    run("luajit", busted, "--lpath=./?.lua", "--pattern=_spec", "tests/unit/proxy/spec")


def code(module: str) -> str:
    """The module without its comments."""
    return re.sub(r"--.*", "", (ROOT / "proxy" / f"{module}.lua").read_text())


def test_pure_modules_do_not_use_nginx() -> None:
    for module in PURE:
        assert not re.search(r"\bngx\b", code(module)), module
        required = re.findall(r'require "proxy\.([\w.]+)"', code(module))
        assert {name.replace(".", "/") for name in required} <= set(PURE), module


def test_the_hot_path_parses_no_json() -> None:
    for module in HOT:
        assert "cjson" not in code(module), module


def test_the_time_for_further_attempts_is_that_of_nginx() -> None:
    [seconds] = re.findall(
        r"proxy_next_upstream_timeout (\d+)s;", (ROOT / "nginx.conf").read_text()
    )
    assert re.search(rf"\bRETRY_S\b.* = {seconds},", code("balance"))


def test_modules_are_short_and_described() -> None:
    table = (ROOT / "proxy" / "README.md").read_text()
    assert len(MODULES) > 10
    assert sum(path.parent.name == "proxy" for path in MODULES) <= 20
    for path in MODULES:
        lines = path.read_text().splitlines()
        assert len(lines) <= 400, f"{path.name} is two modules"
        assert lines[0].startswith("--- "), f"{path.name} has no description"
        assert f"`{path.name}`" in table, f"proxy/README.md does not describe {path.name}"
