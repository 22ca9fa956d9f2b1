"""Takes from Python what only Linux has. With this folder in PYTHONPATH, a process and its children
run as on macOS, as far as Python's interfaces go."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

LINUX_ONLY = [
    (os, "pidfd_open"),
    (os, "sched_getaffinity"),
    (os, "waitid"),
    (select, "epoll"),
    (signal, "pidfd_send_signal"),
    (time, "CLOCK_BOOTTIME"),
]
_HIDDEN = ("/proc", "/sys")
_LIBC = ("mallopt", "malloc_trim", "prctl", "statx")


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook (PEP 578): there is no /proc and no /sys."""
    if event not in ("open", "os.listdir", "os.scandir"):
        return
    path = arguments[0]
    if isinstance(path, str) and path.startswith(_HIDDEN):
        raise FileNotFoundError(2, "No such file or directory", path)


class _LibC(ctypes.CDLL):
    def __getattr__(self, name: str) -> object:
        if name in _LIBC:
            raise AttributeError(name)
        return super().__getattr__(name)


for _module, _name in LINUX_ONLY:
    if hasattr(_module, _name):
        delattr(_module, _name)
if sys.version_info >= (3, 13):
    os.process_cpu_count = os.cpu_count  # it uses sched_getaffinity
ctypes.CDLL = _LibC  # type: ignore[misc]
sys.addaudithook(_refuse)
