"""The state of a folder, to detect changes to any file in it."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any


def tree(root: Path) -> dict[str, Any]:
    """Mode, time, inode and content of a folder and all files below it."""
    found: dict[str, Any] = {}
    for path in (root, *sorted(root.rglob("*"))):
        state = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(state.st_mode) else None
        found[str(path)] = (state.st_mode, state.st_mtime_ns, state.st_ino, content)
    return found
