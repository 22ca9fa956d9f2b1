"""Waiting for a condition with a deadline: the one way this folder waits for anything."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from local.errors import LocalError

T = TypeVar("T")

MOST_STRETCH = 5.0


def wait_until(condition: Callable[[], T], timeout: float, what: str, interval: float = 0.05) -> T:
    """The first true result of ``condition``; ``LocalError`` naming ``what`` after ``timeout`` s.

    The time is for a machine that has a core free. Where processes wait for one another, it is
    longer, up to ``MOST_STRETCH`` times.
    """
    began = time.monotonic()
    while not (result := condition()):
        waited = time.monotonic() - began
        if waited >= timeout and waited >= timeout * stretch():
            raise LocalError(f"waited {waited:.0f} s for {what}, in vain.")
        time.sleep(interval)
    return result


def stretch() -> float:
    """How much longer work takes than on an idle machine, about: processes that want a core, by the
    number of cores; between 1 and ``MOST_STRETCH``."""
    cores = len(os.sched_getaffinity(0))
    return min(max(1.0, os.getloadavg()[0] / cores), MOST_STRETCH)
