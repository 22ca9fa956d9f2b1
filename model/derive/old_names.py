"""Keys of ``[views.NAME.derive]`` with an earlier name. Both names mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.derive.reading import TableError

CURRENT = {"filter": "where"}
"""Earlier name ► current name."""


def current_names(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the current names of its keys. Raises TableError if a key is there twice."""
    for old, current in CURRENT.items():
        if old in table and current in table:
            raise TableError((old,), f"is the earlier name of {current}: write {current} alone")
    return {CURRENT.get(key, key): value for key, value in table.items()}


def written_path(path: tuple[str, ...], table: Mapping[str, Any]) -> tuple[str, ...]:
    """The path of a key as the user wrote it."""
    if path and path[0] not in table:
        for old, current in CURRENT.items():
            if path[0] == current and old in table:
                return (old, *path[1:])
    return path


def stored_name(key: str) -> str:
    """The name of a key in checkpoints: its earliest name, so that existing checkpoints
    continue."""
    return next((old for old, current in CURRENT.items() if current == key), key)
