"""The clock for the age of data."""

from __future__ import annotations

import time


def boot_time() -> float:
    """Seconds since the machine was started. Unlike the wall clock, this clock cannot be set.
    Unlike `time.monotonic`, it also runs while the machine is suspended: data get older then, too.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)
