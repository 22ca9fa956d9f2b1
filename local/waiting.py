"""Waits for a condition, with a deadline. This package has no other way to wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from local.errors import TimedOut
from model.machine.limits import processors

T = TypeVar("T")

MAX_STRETCH = 5.0


def wait_until(condition: Callable[[], T], timeout: float, what: str, interval: float = 0.05) -> T:
    """The first true result of ``condition``. Raises ``TimedOut`` with ``what`` after ``timeout``
    s.

    ``timeout`` is for a machine with an idle core. On a loaded machine it is longer, up to
    ``MAX_STRETCH`` times.
    """
    began = time.monotonic()
    while not (result := condition()):
        waited = time.monotonic() - began
        if waited >= timeout and waited >= timeout * stretch():
            raise TimedOut(f"timed out after {waited:.0f} s waiting for {what}.")
        time.sleep(interval)
    return result


def stretch() -> float:
    """The factor by which other processes slow down this one: runnable processes per core, between
    1 and ``MAX_STRETCH``."""
    return min(max(1.0, os.getloadavg()[0] / processors()), MAX_STRETCH)
