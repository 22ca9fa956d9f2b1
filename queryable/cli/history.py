"""The commands that were typed into `queryable shell`, in a file that only its user reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

MAX_ENTRIES = 10_000
_MAX_BYTES = 4 << 20
"""The size at which the older half of the file is dropped."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command that was typed at `time` (ms since 1970). `status`: its exit code. `seconds`: its
    duration."""

    time: int
    command: str
    status: int
    seconds: float


def history_path() -> Path:
    """`$XDG_STATE_HOME/queryable/history`, by default below ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "queryable" / "history"


def read_history(path: Path) -> list[Entry]:
    """The newest entries, the oldest first; lines that are not entries are left out."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return list(_entries(lines))[-MAX_ENTRIES:]


def _entries(lines: list[str]) -> Iterator[Entry]:
    for line in lines:
        try:
            entry = Entry(**json.loads(line))
        except (ValueError, TypeError):
            continue
        if isinstance(entry.command, str):
            yield entry


def add_to_history(path: Path, entry: Entry) -> None:
    """Append an entry to the file. Without effect if the file cannot be written, because a query
    must not fail for this."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _MAX_BYTES:
            lines = path.read_text(errors="replace").splitlines(keepends=True)
            path.write_text("".join(lines[len(lines) // 2 :]))
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            file.write(json.dumps(asdict(entry)) + "\n")
    except OSError:
        pass
