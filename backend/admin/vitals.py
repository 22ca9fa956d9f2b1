"""The process of an instance: its version, age, memory, threads and free disk."""

from __future__ import annotations

import os
import shutil
import threading
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

_STARTED = time.monotonic()
_PAGE = os.sysconf("SC_PAGE_SIZE")


def vitals(data_dir: Path) -> dict[str, Any]:
    """{"version", "uptime_ms", "memory_bytes", "threads", "disk_free_bytes", "disk_bytes"}.

    `memory_bytes`: in RAM; None if the system does not say. `disk_…`: of the file system of
    `data_dir`; None if it cannot be read.
    """
    free, total = _disk(data_dir)
    return {
        "version": _version(),
        "uptime_ms": round((time.monotonic() - _STARTED) * 1000),
        "memory_bytes": _memory(),
        "threads": _threads(),
        "disk_free_bytes": free,
        "disk_bytes": total,
    }


@cache
def _version() -> str:
    return version("queryable-topics")


def _memory() -> int | None:
    """The resident memory (proc(5), statm)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None


def _threads() -> int:
    """All threads of the process, with those of libraries; without /proc, those of Python."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _disk(folder: Path) -> tuple[int | None, int | None]:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:  # it is created with the first store
        return None, None
    return usage.free, usage.total
