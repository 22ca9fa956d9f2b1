"""Settings of Python's interpreter for a process with an event loop and threads that compute."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL_S = 0.0005


def share_objects() -> None:
    """Turns the garbage collector on, for new objects only. So it does not write to the memory
    pages of existing objects, which the worker shares. Call this in the arbiter when everything is
    imported."""
    gc.freeze()
    gc.enable()


def tune_interpreter() -> None:
    """Call this in the worker, before requests are answered.

    - The existing objects are excluded from garbage collection, and it runs less often. Ingest
      creates thousands of objects per batch, without reference cycles; by default, the collector
      would run after every 700 of them.
    - A thread that waits for the interpreter lock gets it after 0.5 ms instead of 5: otherwise each
      turn of the event loop can wait for 5 ms while ingest or a ranking computes. Shorter intervals
      gain nothing (docs/performance-experiments.md).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
