"""The clock for the age of data."""

from __future__ import annotations

import time

# macOS has no CLOCK_BOOTTIME: its CLOCK_MONOTONIC runs while the machine is suspended
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time() -> float:
    """Seconds since the machine was started. Unlike the wall clock, this clock cannot be set.
    Unlike `time.monotonic`, it also runs while the machine is suspended: data get older then, too.
    """
    return time.clock_gettime(_CLOCK)
