"""Waiting for a condition with a deadline: the one way this folder waits for anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from local.errors import LocalError

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float, what: str, interval: float = 0.05) -> T:
    """The first true result of ``condition``; ``LocalError`` naming ``what`` after ``timeout``."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        if time.monotonic() >= deadline:
            raise LocalError(f"waited {timeout:g} s for {what}, in vain.")
        time.sleep(interval)
    return result
