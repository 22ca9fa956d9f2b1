"""A system that is not Linux, for tests: `environment` for processes."""

from __future__ import annotations

import os
from pathlib import Path

from local.settings import REPOSITORY

_WITHOUT_LUA = """#!/bin/sh
echo 'nginx: [emerg] unknown directive "lua_package_path" in nginx.conf:33' >&2
exit 1
"""


def environment(programs: Path, **given: str) -> dict[str, str]:
    """The environment of a process that finds only what macOS has, too: of Python no interfaces of
    Linux, of programs a few of POSIX, and an nginx without Lua. `programs`: a folder for these."""
    programs.mkdir()
    (programs / "nginx").write_text(_WITHOUT_LUA)
    (programs / "nginx").chmod(0o755)
    for name in ("cat", "getconf", "grep", "ps", "rm", "sed", "tr"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    kept = {name: value for name, value in os.environ.items() if name[:10] != "QUERYABLE_"}
    folders = [str(Path(__file__).parent), str(REPOSITORY)]
    return {**kept, "PATH": str(programs), "PYTHONPATH": os.pathsep.join(folders), **given}
