"""What a server uses, from /proc: all processes and threads of its session, no other.

Servers are started in a session of their own (`local.processes.spawn`), whose id is the first
process's pid. Source: proc(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/<pid>/stat tells: the session, and CPU ticks with those of ended children."""

    session: int
    ticks: int


def parse_stat(text: str) -> Stat:
    """A line of /proc/<pid>/stat; the command's name, in parentheses, may hold anything."""
    # from field 3 on: fields[i] is field i + 3; session 6, utime stime cutime cstime 14 to 17
    fields = text.rpartition(")")[2].split()
    return Stat(int(fields[3]), sum(map(int, fields[11:15])))


def parse_kb(text: str, name: str) -> int:
    """The kB of a line `name:  123 kB` of /proc/<pid>/status or smaps_rollup; 0 if missing."""
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def parse_busy(text: str) -> int:
    """Ticks that all cores of the machine were busy, from /proc/stat."""
    # user nice system idle iowait irq softirq steal; guest time is in user already
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, text.split()[1:9])
    return user + nice + system + irq + softirq + steal


def _session(leader: int) -> Iterator[tuple[Path, Stat]]:
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                stat = parse_stat((path / "stat").read_text())
            except OSError:  # has just ended
                continue
            if stat.session == leader:
                yield path, stat


def cpu_seconds(*leaders: int) -> float:
    """CPU time so far, user and system, of the sessions of these processes."""
    return sum(stat.ticks for leader in leaders for _, stat in _session(leader)) / _TICK


def peak_rss_mb(leader: int) -> float:
    """Peak resident memory in MB (10⁶) of the largest process of a session.

    The largest, not the sum: gunicorn's arbiter shares most of its few pages with the worker.
    """
    return max(_kb(path / "status", "VmHWM") for path, _ in _session(leader)) * 1024 / 1e6


def forget_peak_rss(leader: int) -> None:
    """The peaks of a session's processes begin anew with what they have now."""
    for path, _ in _session(leader):
        (path / "clear_refs").write_text("5")


def pss_mb(leader: int) -> float:
    """Resident memory in MB of all processes of a session now, shared pages counted once."""
    return sum(_kb(path / "smaps_rollup", "Pss") for path, _ in _session(leader)) * 1024 / 1e6


def threads(leader: int) -> int:
    """Of all processes of a session now."""
    return sum(_entries(path / "task") for path, _ in _session(leader))


def handles(leader: int) -> int:
    """Open file descriptors of all processes of a session now."""
    return sum(_entries(path / "fd") for path, _ in _session(leader))


def busy_seconds() -> float:
    """CPU time that the whole machine has spent so far."""
    return parse_busy(Path("/proc/stat").read_text().splitlines()[0]) / _TICK


def _entries(path: Path) -> int:
    try:
        return len(os.listdir(path))
    except OSError:
        return 0


def _kb(path: Path, name: str) -> int:
    try:
        return parse_kb(path.read_text(), name)
    except OSError:
        return 0
