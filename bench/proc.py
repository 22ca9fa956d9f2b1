"""The resources of a server, from /proc, for all processes and threads of its session.

Each server has a session of its own (`local.processes.spawn`), whose id is the pid of the server's
first process. Source: proc(5).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def parse_stat(text: str) -> tuple[int, int]:
    """From /proc/<pid>/stat: the session, and CPU ticks including those of ended children. The
    command's name, in parentheses, may have any characters."""
    # fields[i] is field i + 3; the session is field 6, utime stime cutime cstime are 14 to 17
    fields = text.rpartition(")")[2].split()
    return int(fields[3]), sum(map(int, fields[11:15]))


def parse_kb(text: str, name: str) -> int:
    """The kB of a line `name:  123 kB` of /proc/<pid>/status or smaps_rollup; 0 if missing."""
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def parse_busy(text: str) -> int:
    """Busy ticks of all cores of the machine, from /proc/stat."""
    # user nice system idle iowait irq softirq steal; user includes guest time
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, text.split()[1:9])
    return user + nice + system + irq + softirq + steal


def _sessions(leaders: Collection[int]) -> Iterator[tuple[Path, int]]:
    """The folder and the CPU ticks of each process of these sessions."""
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                session, ticks = parse_stat((path / "stat").read_text())
            except OSError:  # the process has just ended
                continue
            if session in leaders:
                yield path, ticks


def cpu_seconds(*leaders: int) -> float:
    """Total CPU time, user and system, of the sessions of these processes."""
    return sum(ticks for _, ticks in _sessions(leaders)) / _TICK


def peak_rss_mb(leader: int) -> float:
    """Peak resident memory in MB (10⁶) of the largest process of a session.

    It is not the sum, because gunicorn's arbiter shares most of its few pages with the worker.
    """
    return max(_kb(path / "status", "VmHWM") for path, _ in _sessions((leader,))) * 1024 / 1e6


def reset_peak_rss(leader: int) -> None:
    """Resets the peaks of a session's processes to their current memory."""
    for path, _ in _sessions((leader,)):
        (path / "clear_refs").write_text("5")


def pss_mb(leader: int) -> float:
    """Resident memory in MB of all processes of a session; shared pages count once."""
    return sum(_kb(path / "smaps_rollup", "Pss") for path, _ in _sessions((leader,))) * 1024 / 1e6


def threads(leader: int) -> int:
    """The number of threads of all processes of a session."""
    return sum(_entries(path / "task") for path, _ in _sessions((leader,)))


def children(pid: int) -> set[int]:
    """The processes that a process has started, and that have not ended."""
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def open_files(leader: int) -> int:
    """The number of open file descriptors of all processes of a session."""
    return sum(_entries(path / "fd") for path, _ in _sessions((leader,)))


def busy_seconds() -> float:
    """Total CPU time of the whole machine."""
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
