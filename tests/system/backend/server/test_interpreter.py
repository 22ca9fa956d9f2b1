"""Tests of the interpreter's settings, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import gc, sys
from backend.server.interpreter import tune_interpreter

tune_interpreter()
print(sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count() > 1000)
"""


def test_threads_that_compute_give_way_and_existing_objects_are_not_collected() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=30
    )
    assert result.stdout == "0.0005 (50000, 20, 20) True\n"


_ARBITER = """
import gc
gc.disable()
import backend.instance.application
from backend.server.interpreter import share_objects

share_objects()
print(gc.isenabled(), gc.get_freeze_count() > 50000, len(gc.get_objects()) < 1000)
"""


def test_the_collector_of_the_arbiter_leaves_existing_objects_alone() -> None:
    """Else it would write to the pages that the worker shares with it."""
    result = subprocess.run(
        [sys.executable, "-c", _ARBITER], capture_output=True, text=True, check=True, timeout=30
    )
    assert result.stdout == "True True True\n"
