"""The clock for the age of data."""

from __future__ import annotations

import time


def boot_time() -> float:
    """s since the machine has started. Unlike the wall clock it cannot be set, and unlike
    `time.monotonic` it goes on while the machine is suspended: data are older after that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
