"""The processors and the memory that a process may use, as its container limits them."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def processors(cgroups: Path = _CGROUPS) -> int:
    """The number of processors that the process may run on, or the number that its container has if
    that is smaller; at least 1.

    `cgroups`: the folder of control groups (version 2 or 1). Their quota is a CPU time (µs) for
    each period (µs).
    """
    available = _affinity()
    quota = _text(cgroups / "cpu.max").split()
    if not quota:
        cpu = cgroups / "cpu"
        quota = [_text(cpu / "cpu.cfs_quota_us"), _text(cpu / "cpu.cfs_period_us")]
    try:
        allowed, period = (int(text) for text in quota)
        return max(1, min(available, allowed // period)) if allowed > 0 else available
    except (ValueError, ZeroDivisionError):  # no quota
        return available


def _affinity() -> int:
    """The number of processors that the process may run on; on systems that do not restrict a
    process, such as macOS, that of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory(cgroups: Path = _CGROUPS) -> int:
    """The memory of the machine in bytes, or the limit of the container if that is smaller."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = (cgroups / "memory.max", cgroups / "memory" / "memory.limit_in_bytes")
    return min([total, *(int(text) for text in map(_text, limits) if text.isdecimal())])


def _text(file: Path) -> str:
    """The text of the file; empty if it cannot be read."""
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
