"""Marks the folders that this project may write to and clear."""

from __future__ import annotations

import json
from pathlib import Path

from local.errors import LocalError
from local.settings import REPOSITORY
from local.stack.supervisor import PidFile

MARK = ".queryable-topics"
_NOTE = "`make demo`, `make up`, `make bench` and the like keep their files in this folder.\n"
_KNOWN = {"lock", "logs", "nginx", "state", "spark-progress.json", "in-background"}


def claim(folder: Path, setting: str = "QUERYABLE_RUN_DIR") -> None:
    """Creates and marks the folder. If it has other files, ``LocalError`` names ``setting``, and
    the folder is not changed. Raises OSError if it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / MARK).is_file():
        return
    resolved = folder.resolve()
    within_ours = (REPOSITORY / ".run").resolve() in (resolved, *resolved.parents)
    if any(folder.iterdir()) and not within_ours and not _is_unmarked_stack(folder):
        raise LocalError(
            f"{folder} is not empty and has no file {MARK}, so it may have files of other "
            f"programs; nothing was changed. Name an empty or a new folder with {setting}."
        )
    (folder / MARK).write_text(_NOTE)


def _is_unmarked_stack(folder: Path) -> bool:
    """Whether the folder has only files of a stack of a version without marks."""
    link = folder / "nginx" / "nginx.conf"
    has_link = link.is_symlink() and link.readlink() == REPOSITORY / "nginx.conf"
    rest = [path for path in folder.iterdir() if path.name not in _KNOWN]
    return all(map(_is_pid_file, rest)) and (has_link or bool(rest))


def _is_pid_file(path: Path) -> bool:
    if path.suffix != ".pid" or path.is_symlink():
        return False
    try:
        PidFile(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return False
    return True
