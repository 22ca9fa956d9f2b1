"""Copies of data folders, made with the commands of docs/operations.md."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.support.backends import Backend


def back_up(backends: Iterable[Backend]) -> dict[str, Path]:
    """Copy the data folder of each (stopped) instance; returns instance -> copy."""
    copies = {}
    for backend in backends:
        assert not backend.is_running
        copies[backend.id] = backend.data_dir.with_name(f"{backend.id}.backup")
        cp(backend.data_dir, copies[backend.id])
    return copies


def restore(backend: Backend, copy: Path) -> None:
    """Replace the data folder of a (stopped) instance by a copy."""
    assert not backend.is_running
    shutil.rmtree(backend.data_dir)
    cp(copy, backend.data_dir)


def cp(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def positions(backend: Backend, field: str = "position") -> dict[tuple[str, int], int]:
    """(view, partition) -> a position, of open store partitions that are on disk."""
    return {
        (p["view"], p["partition"]): p[field]
        for p in backend.instance()["partitions"]
        if field in p and (backend.data_dir / p["view"] / str(p["partition"]) / "CURRENT").exists()
    }


def rebuilt(backend: Backend) -> list[str]:
    """The lines of the log of the current process that say that something is rebuilt."""
    return [line for line in backend.log().splitlines() if "rebuilt" in line]
