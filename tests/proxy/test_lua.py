"""The Lua modules' own specs, and luacheck."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_specs_pass_under_luajit() -> None:
    busted = shutil.which("busted")
    assert busted is not None, "busted is not installed (lua-busted)"
    # its own first line asks for any Lua; nginx runs LuaJIT, whose bit operations the modules use
    run("luajit", busted, "--lpath=./?.lua", "--pattern=_spec", "tests/proxy/spec")


def test_luacheck_finds_nothing() -> None:
    run("luacheck", "--config", "proxy/.luacheckrc", "proxy", "tests/proxy")
